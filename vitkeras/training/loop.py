"""The loop that every recipe runs: chunks of steps, logging, evaluation, checkpoints, an exact resume.

The state of a run is the engine's arrays, the step, and the sums of the log row that is being collected; everything
else (images, crops, dropout) is a function of (seed, step). So how the steps are cut into chunks changes nothing.
"""

import time
from dataclasses import dataclass

from vitkeras._tensorflow import tf

# The longest chunk in seconds: how long a signal may have to wait.
CHUNK_SECONDS = 5.0


@dataclass(frozen=True)
class Outcome:
    """How a call of `train` ended.

    Attributes:
        step: int, updates done.
        finished: bool, False if it was stopped before `total_steps`.
        metrics: dict of split name -> what `Engine.evaluate` gave after the last step; empty if stopped.
    """

    step: int
    finished: bool
    metrics: dict


def train(
    engine,
    batches,
    total_steps,
    evaluations=None,
    log=None,
    checkpointer=None,
    stop=None,
    log_every=10,
    evaluate_every=None,
    save_every=None,
    save_seconds=600.0,
    best_by="dev",
    use_ema=False,
):
    """Trains up to `total_steps`, from the engine's current step on.

    Call `resume` before it to go on from a checkpoint.

    Args:
        engine: `Engine`.
        batches: function of a start step that returns the training `tf.data.Dataset` from that batch on.
        total_steps: int >= 1.
        evaluations: dict of split name -> `tf.data.Dataset` for `Engine.evaluate`. Default none.
        log: `RunLog` or None.
        checkpointer: `Checkpointer` or None for a run that can't be resumed.
        stop: `StopSignal` or None, read between two chunks of at most about five seconds.
        log_every: int >= 1, steps between two log rows; an evaluation has one before it too. Default 10.
        evaluate_every: int >= 1 or None (default): only after the last step.
        save_every: int >= 1 or None (default): by time only.
        save_seconds: float or None, a checkpoint at least this often. Default 600. The last step has one too.
        best_by: str, the split whose accuracy picks the best checkpoint, if it is evaluated. Default "dev".
        use_ema: bool, evaluate the averaged weights. Default False.

    Returns:
        `Outcome`.

    Raises:
        TrainingError: if a loss isn't finite.
        CheckpointError: if a checkpoint can't be written.
    """
    run = _Run(engine, total_steps, evaluations or {}, log, checkpointer, best_by, use_ema)
    run.load_sums()
    iterator = engine.iterator(batches(engine.step)) if engine.step < total_steps else None
    rhythm = [every for every in (log_every, evaluate_every, save_every) if every]
    saved_at = time.monotonic()
    longest, traced = 2, False  # steps in a chunk, until the speed is known
    metrics = {}
    while (step := engine.step) < total_steps:
        if _anyone_stops(engine, stop):
            run.save(step)
            return Outcome(step, False, {})
        end = min(total_steps, step + longest, *(step - step % every + every for every in rhythm))
        start = time.monotonic()
        run.collect(engine.run(iterator, end - step))
        if traced:  # the first chunk traces the step and tells nothing about the speed
            seconds = max(time.monotonic() - start, 1e-6)
            longest = max(1, int(CHUNK_SECONDS * (end - step) / seconds))
        traced = True
        evaluates = evaluate_every and end % evaluate_every == 0 or end == total_steps
        if end % log_every == 0 or evaluates:
            run.log_row(end)
        metric = None
        if evaluates:
            metrics = run.evaluate(end)
            metric = metrics.get(best_by, {}).get("accuracy")
        late = save_seconds is not None and time.monotonic() - saved_at >= save_seconds
        if end == total_steps or late or save_every and end % save_every == 0 or run.is_best(metric):
            run.save(end, metric)
            saved_at = time.monotonic()
    if not metrics:  # resumed after the last step, whose rows the log has
        metrics = run.evaluate(engine.step, log=False)
    return Outcome(engine.step, True, metrics)


def resume(engine, checkpointer):
    """Puts the latest checkpoint into the engine, if there is one.

    Args:
        engine: `Engine`.
        checkpointer: `Checkpointer`.

    Returns:
        int, the step that the run goes on from; 0 without a checkpoint.

    Raises:
        ValueError: if the checkpoint is damaged, of another configuration or of another model; the engine stays as it
            was.
    """
    found = checkpointer.restore()
    if found is None:
        return 0
    try:
        engine.restore(found.arrays)
    except ValueError as error:
        raise ValueError(f"checkpoint {checkpointer.path(found.step)} is of another model: {error}") from error
    return found.step


class _Run:
    """What the loop does between two chunks."""

    def __init__(self, engine, total_steps, evaluations, log, checkpointer, best_by, use_ema):
        self.engine, self.total_steps, self.evaluations = engine, total_steps, evaluations
        self.log, self.best_by, self.use_ema = log, best_by, use_ema
        self.checkpointer = checkpointer
        self.writes = checkpointer is not None and is_chief(engine.strategy)
        self.sums = {"loss": 0.0, "accuracy": 0.0, "steps": 0}

    def load_sums(self):
        if self.checkpointer is not None and self.engine.step and self.checkpointer.latest() == self.engine.step:
            self.sums = self.checkpointer.extra(self.engine.step)["log"]

    def collect(self, result):
        for loss, accuracy in zip(result["loss"].tolist(), result["accuracy"].tolist()):
            self.sums["loss"] += loss
            self.sums["accuracy"] += accuracy
            self.sums["steps"] += 1

    def log_row(self, step):
        count = self.sums["steps"]
        if self.log is not None:
            rate = self.engine.learning_rate(step - 1)
            self.log.train(step, self.sums["loss"] / count, self.sums["accuracy"] / count, rate)
        self.sums = {"loss": 0.0, "accuracy": 0.0, "steps": 0}

    def evaluate(self, step, log=True):
        metrics = {}
        for split, dataset in self.evaluations.items():
            metrics[split] = self.engine.evaluate(dataset, use_ema=self.use_ema)
            if log and self.log is not None:
                self.log.evaluation(step, metrics[split]["loss"], metrics[split]["accuracy"], split=split)
        return metrics

    def is_best(self, metric):
        if metric is None or not self.writes:
            return False
        best = self.checkpointer.best()
        return best is None or metric > best[1]

    def save(self, step, metric=None):
        if self.writes:
            self.checkpointer.save(step, self.engine.state(), metric, {"log": self.sums})


def is_chief(strategy):
    """bool, whether this process writes the run's files: True but for the other workers of several."""
    resolver = getattr(strategy, "cluster_resolver", None)
    return not num_workers(strategy) > 1 or resolver.task_id == 0 and resolver.task_type in ("worker", "chief")


def num_workers(strategy):
    """int, the processes that train together under `strategy`."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 1
    return len(resolver.cluster_spec().job_tasks("worker"))


def _anyone_stops(engine, stop):
    """Whether this process or another worker was asked to stop; workers have to leave the loop at the same step."""
    wish = stop is not None and stop.requested
    if num_workers(engine.strategy) == 1:
        return wish
    wishes = engine.strategy.run(lambda: tf.constant(float(wish)))
    return float(engine.strategy.reduce("SUM", wishes, axis=None)) > 0
