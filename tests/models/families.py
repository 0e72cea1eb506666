"""Every kind of model, small: one table. Sides are odd, so that each SAME padding is uneven somewhere."""

from dataclasses import dataclass, field

from backends import randomise

from vitkeras.models import AxialViT, ResNet, VisionTransformer

# A 33 x 45 image gives the root a map of 9 x 12 and two stages one of 5 x 6; patches of 3 x 4 and 1 x 2 fit them.
SHAPE, OTHER = (33, 45, 2), (65, 29, 2)


def vit(**arguments):
    return VisionTransformer(
        arguments.pop("input_shape"), arguments.pop("patch_size", (3, 5)), 2, 24, 3, 23, **arguments
    )


def hybrid(**arguments):
    return vit(**{"stem_width_factor": 0.5, **arguments})


def resnet(**arguments):
    return ResNet(arguments.pop("input_shape"), (1, 1), 0.5, **arguments)


def axial_vit(**arguments):
    return AxialViT(arguments.pop("input_shape"), (3, 5), 2, 24, 3, 23, **arguments)


@dataclass(frozen=True)
class Family:
    builder: callable
    arguments: dict = field(default_factory=dict)
    resizes: bool = True
    other: tuple = (42, 20, 2)
    noise: float = 1.0  # how much larger than a ViT's the rounding of its scores is

    def __call__(self, **arguments):
        defaults = dict(input_shape=SHAPE, classes=13, classifier_activation=None)
        return randomise(self.builder(**{**defaults, **self.arguments, **arguments}), scale=0.1)


FAMILIES = {
    "hybrid": Family(hybrid, dict(stem_blocks=(1, 1), patch_size=(1, 2), representation_size=17), other=OTHER),
    "hybrid of the root alone": Family(hybrid, dict(stem_blocks=(), patch_size=(3, 4)), other=(57, 29, 2)),
    "hybrid without class token": Family(
        hybrid, dict(stem_blocks=(1, 1), patch_size=(1, 2), classifier="gap"), other=OTHER
    ),
    "1-D at every layer": Family(vit, dict(position_embedding_at="every_layer")),
    "1-D at every layer, shared": Family(vit, dict(position_embedding_at="every_layer_shared")),
    "2-D": Family(vit, dict(position_embedding="learned_2d")),
    "2-D at every layer": Family(
        vit, dict(position_embedding="learned_2d", position_embedding_at="every_layer", classifier="gap")
    ),
    "2-D at every layer, shared": Family(
        vit, dict(position_embedding="learned_2d", position_embedding_at="every_layer_shared")
    ),
    "relative": Family(vit, dict(position_embedding="relative"), resizes=False),
    "relative without class token": Family(vit, dict(position_embedding="relative", classifier="gap"), resizes=False),
    "resnet": Family(resnet, other=OTHER),
    # Norms of one channel a group divide by the deviation of as few as 30 numbers, which attention makes nearly alike.
    "axial resnet": Family(resnet, dict(attention_heads=4), resizes=False, noise=5),
    "axial vit": Family(axial_vit),
}
