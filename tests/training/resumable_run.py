"""A tiny run that is killed and goes on, again and again; run by test_resume.

    python resumable_run.py FOLDER STEPS KILLS SEED

One run into FOLDER/whole isn't disturbed. The other, in FOLDER/killed, dies KILLS times by SIGKILL at random moments of
its training and saving, and then runs to its end. Both are processes of their own, forked after the imports and
before TensorFlow starts, which saves the seconds of importing it each time. A JSON line for each attempt.
"""

import json
import os
import random
import signal
import sys
import time
import traceback

import keras
import numpy as np
import tensorflow as tf

import vitkeras
from vitkeras import data, training
from vitkeras.data.image_set import PixelSet

INTERVAL = 3


class SlowLog(training.RunLog):
    """Says when a step was made, and gives the killer time to aim."""

    def train(self, step, *values, **more):
        super().train(step, *values, **more)
        os.write(self.pipe, b"%d\n" % step)
        time.sleep(0.02)


def run(workdir, steps, pipe):
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # as in tests/conftest.py
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rng = np.random.default_rng(3)
    pixels, labels = rng.integers(0, 256, (29, 17, 19, 3)).astype("uint8"), rng.integers(0, 5, 29)
    images = PixelSet("noise", tuple("abcde"), pixels, labels)
    keras.utils.set_random_seed(7)
    model = vitkeras.VisionTransformer(
        (16, 24, 3), 8, 1, 24, 3, 48, classes=5, classifier_activation=None, dropout_rate=0.2, stochastic_depth_rate=0.2
    )
    schedule = training.WarmupDecay(3e-3, total_steps=steps, warmup_steps=2)
    optimizer = training.make_optimizer("adamw", schedule, weight_decay=0.1)
    engine = training.Engine(model, optimizer, seed=11, ema_decay=0.9)
    saver = training.Checkpointer(f"{workdir}/checkpoints", keep=2, config={"steps": steps}, seed=11)
    start = training.resume(engine, saver)
    with open(os.devnull, "w") as quiet, SlowLog(workdir, steps, 7, stream=quiet, start_step=start) as log:
        log.pipe = pipe
        training.train(
            engine,
            lambda step: data.train_batches(images, 7, (16, 24), seed=11, start_step=step),
            steps,
            evaluations={"dev": data.eval_batches(images, 7, (16, 24))},
            log=log,
            checkpointer=saver,
            log_every=2,
            evaluate_every=10,
            save_every=INTERVAL,
        )


def attempt(workdir, steps, rows=1, seconds=None):
    """Forks a run, kills it so long after it wrote so many log rows, and says how far it got."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        code = 1
        try:
            run(workdir, steps, writes)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)  # without the parent's clean-up
    os.close(writes)
    with open(reads) as lines:
        seen = [int(lines.readline() or 0) for _ in range(rows)]
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        seen += [int(line) for line in lines]
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    saved = training.Checkpointer(f"{workdir}/checkpoints").restore()  # raises if LAST names a damaged one
    return {"code": status, "reached": max(seen), "saved": saved.step if saved else 0}


if __name__ == "__main__":
    folder, steps, kills, seed = sys.argv[1], *map(int, sys.argv[2:5])
    for name in ("whole", "killed"):
        os.makedirs(os.path.join(folder, name))
    print(json.dumps(attempt(os.path.join(folder, "whole"), steps)), flush=True)
    moments = random.Random(seed)
    for _ in range(kills):
        # A row is two steps and takes about 0.03 s; counted rows, because seconds alone say little on a busy machine.
        rows, delay = moments.randint(1, max(1, steps // (3 * kills))), moments.uniform(0, 0.05)
        print(json.dumps(attempt(os.path.join(folder, "killed"), steps, rows, delay)), flush=True)
    print(json.dumps(attempt(os.path.join(folder, "killed"), steps)), flush=True)
