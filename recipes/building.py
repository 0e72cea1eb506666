"""From a configuration to a model, an optimizer and an engine."""

import inspect

from .config import ModelConfig

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ARCHITECTURE = (
    "patch_size",
    "num_layers",
    "hidden_dim",
    "num_heads",
    "mlp_dim",
    "activation",
    "classifier",
    "position_embedding",
    "dropout_rate",
    "stochastic_depth_rate",
    "representation_size",
    "stage_blocks",
    "width_factor",
)
# What a field is called by a builder: by hybrids, and by ResNets.
CALLED = {"stage_blocks": ("stem_blocks", "blocks"), "width_factor": ("stem_width_factor", "width_factor")}


def build_model(config, classes):
    """Builds the model of a configuration with a head of `classes`, and loads its weights.

    The head's kernel starts at zero, its bias at `model.head_bias`.
    """
    import keras

    from vitkeras import models
    from vitkeras.models.weights import find_weights, load_weights

    choice = config.model
    overrides = _architecture(choice)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16" if config.train.mixed_precision else "float32")
    try:
        model = models.build_variant(
            choice.variant,
            input_shape=(*config.data.image_size, 3),
            classes=classes,
            classifier_activation=None,
            **overrides,
        )
    finally:
        keras.config.set_dtype_policy(policy)
    if choice.weights is not None:
        weights = find_weights(choice.weights, choice.variant, config.data.image_size[0]) or choice.weights
        normalisation = {"original": (None, None), "imagenet": (IMAGENET_MEAN, IMAGENET_STD)}
        if choice.weights_input not in normalisation:
            raise ValueError(
                f"model.weights_input must be one of {tuple(normalisation)}, received {choice.weights_input!r}."
            )
        mean, std = normalisation[choice.weights_input]
        load_weights(model, weights, include_top=False, input_mean=mean, input_std=std)
    if choice.head_bias:
        bias = model.get_layer("head").bias
        bias.assign(keras.ops.full(bias.shape, choice.head_bias))
    return model


def build_engine(config, classes, steps, strategy, task=None, around=None):
    """Builds model, optimizer and engine in a strategy's scope.

    Args:
        config: a configuration with sections model, optimizer, loss and train.
        classes: int.
        steps: int, updates of the whole run.
        strategy: `tf.distribute.Strategy`.
        task: what to train for; default: classification with the section loss.
        around: function from the classifier to the model that is trained instead of it, or None (default).

    Returns:
        `vitkeras.training.Engine`.
    """
    import keras

    from vitkeras import training

    train = config.train
    task = task or training.Classification(config.loss.name, config.loss.label_smoothing)
    keras.utils.set_random_seed(train.seed)
    with strategy.scope():
        model = build_model(config, classes)
        model = model if around is None else around(model)
        optimizer = build_optimizer(config, steps)
    return training.Engine(
        model,
        optimizer,
        strategy,
        accumulate=train.accumulate,
        task=task,
        seed=train.seed,
        ema_decay=train.ema_decay,
        remat=train.remat,
        jit_compile=train.jit_compile,
        pruning=training.MagnitudePruning(train.sparsity, max(1, 4 * steps // 5)) if train.sparsity else None,
    )


def build_optimizer(config, steps):
    """Builds the optimizer of a configuration with its schedule over `steps`; call it in the strategy's scope."""
    from vitkeras import training

    choice = config.optimizer
    schedule = training.WarmupDecay(
        choice.learning_rate,
        total_steps=steps,
        warmup_steps=steps // 10 if choice.warmup_steps is None else choice.warmup_steps,
        decay=choice.decay,
    )
    return training.make_optimizer(
        choice.name,
        schedule,
        momentum=choice.momentum,
        weight_decay=choice.weight_decay,
        clip_norm=choice.clip_norm,
    )


def _architecture(choice):
    """Returns what a `ModelConfig` says of the architecture, for a variant whose family may lack some of it."""
    from vitkeras import models

    if choice.variant not in models.VARIANTS:
        return {}  # refused, with the nearest names, by whatever builds it
    row = models.VARIANTS[choice.variant]
    parameters = inspect.signature(row.builder).parameters
    given = {}
    for key in ARCHITECTURE:
        value = getattr(choice, key)
        called = next((name for name in CALLED.get(key, (key,)) if name in parameters), None)
        if called in ("stem_blocks", "stem_width_factor") and row.stem_blocks is None:
            called = None  # a ViT without a stem
        if value is None:
            continue
        if called is not None:
            given[called] = value
        elif value != getattr(ModelConfig, key):
            raise ValueError(f"model.{key} is not for model.variant={choice.variant}, received {value!r}.")
    return given
