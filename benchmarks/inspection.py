"""What looking inside a model costs: features and attention maps against the plain forward pass.

    python benchmarks/inspection.py [--variant vit_b16 --batch 16 --rounds 5 --json out.json]

Three goals: features for few-shot evaluation at 0.95 of the throughput of plain inference or more; attention maps of a
batch in less than 2.5 times the forward pass; and the memory for them at most the maps' own bytes and 1.3 times what a
forward pass takes. The tasks take turns in one process; printed are the median of the ratios within each round, the
ratio of the fastest, and that of the least processor time, which a busy machine disturbs least. The plain forward pass
is a compiled `tf.function`.

Memory is the highest resident size of a fresh process while the task runs, above that before it, sampled every 2 ms,
after one run with a single image that loads and traces what the task needs. Weights are random.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time

from latency_workers import vitkeras_model

GOALS = {"features": 0.95, "maps": 2.5, "memory": 1.3}


def tasks(variant, batch, image_size):
    """dict of name -> function of the number of images."""
    import tensorflow as tf

    from vitkeras import analysis, evaluation

    model = vitkeras_model(variant, image_size)
    shape = (image_size, image_size, 3)
    images = tf.random.stateless_normal((batch, *shape), (1, 2))
    infer = tf.function(lambda x: model(x, training=False), input_signature=[tf.TensorSpec((None, *shape))])
    frozen = evaluation.feature_model(model)

    return {
        "forward": lambda count: infer(images[:count]).numpy(),
        "maps": lambda count: analysis.attention_maps(model, images[:count]),
        "features": lambda count: evaluation.fewshot_features(frozen, [(images[:count], tf.zeros(count, tf.int32))]),
    }


def timed(variant, batch, image_size, rounds):
    """{"seconds", "processor"}: dicts of task -> seconds of each round, by the clock and of all processors together."""
    todo = tasks(variant, batch, image_size)
    found = {kind: {name: [] for name in todo} for kind in ("seconds", "processor")}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for name, run in todo.items():
            start, processor = time.perf_counter(), time.process_time()
            run(batch)
            if number:  # round 0 traces and warms up
                found["seconds"][name].append(time.perf_counter() - start)
                found["processor"][name].append(time.process_time() - processor)
    return found


def memory(variant, batch, image_size, task):
    """{"bytes": most memory above that before the task, "result": bytes of what it gives}."""
    run = tasks(variant, batch, image_size)[task]
    run(1)
    before, peak, stop = resident(), [0], threading.Event()

    def watch():
        while not stop.is_set():
            peak[0] = max(peak[0], resident())
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    result = run(batch)
    stop.set()
    thread.join()
    return {"bytes": peak[0] - before, "result": sum(x.nbytes for x in result) if task == "maps" else result.nbytes}


def resident():
    """Bytes of memory that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ask(role, **arguments):
    """What this script answers in a fresh process."""
    command = [sys.executable, __file__, "--worker", role, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed, for the reason above.")
    return json.loads(done.stdout.splitlines()[-1])


def compared(seconds, processor, forward, maps):
    """dict of goal -> (found, {how else: found}, whether it is met)."""
    pairs = {"features": ("forward", "features"), "maps": ("maps", "forward")}
    found = {}
    for goal, (a, b) in pairs.items():
        ratio = statistics.median(x / y for x, y in zip(seconds[a], seconds[b]))
        met = ratio >= GOALS[goal] if goal == "features" else ratio < GOALS[goal]
        others = {
            "fastest": min(seconds[a]) / min(seconds[b]),
            "processor": min(processor[a]) / min(processor[b]),
        }
        found[goal] = ratio, others, met
    ratio = (maps["bytes"] - maps["result"]) / forward["bytes"]
    return {**found, "memory": (ratio, {}, ratio <= GOALS["memory"])}


def main():
    """Runs the rounds and the fresh processes, and prints the numbers."""
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("--variant", default="vit_b16")
    parse.add_argument("--batch", type=int, default=16)
    parse.add_argument("--image-size", type=int, default=224)
    parse.add_argument("--rounds", type=int, default=5)
    parse.add_argument("--json", metavar="PATH")
    parse.add_argument("--worker", nargs=2, metavar=("ROLE", "JSON"), help=argparse.SUPPRESS)
    arguments = parse.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # as in compute.py
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    if arguments.worker:
        role, options = arguments.worker
        print(json.dumps({"time": timed, "memory": memory}[role](**json.loads(options))))
        return 0
    for name in ("batch", "image_size", "rounds"):
        if getattr(arguments, name) < 1:
            parse.error(f"--{name.replace('_', '-')} must be 1 or more, received {getattr(arguments, name)}.")
    options = {"variant": arguments.variant, "batch": arguments.batch, "image_size": arguments.image_size}
    times = ask("time", rounds=arguments.rounds, **options)
    seconds, processor = times["seconds"], times["processor"]
    forward, maps = (ask("memory", task=task, **options) for task in ("forward", "maps"))
    found = compared(seconds, processor, forward, maps)
    print(f"{arguments.variant}, {arguments.batch} images of {arguments.image_size} px, {arguments.rounds} rounds")
    for name, taken in seconds.items():
        least = f"fastest {min(taken):7.3f} s, least processor time {min(processor[name]):7.3f} s"
        print(f"{name:9s} median {statistics.median(taken):7.3f} s, {least}")
    print(
        f"memory of the forward pass {forward['bytes'] / 1e6:.0f} MB, with maps {maps['bytes'] / 1e6:.0f} MB, ", end=""
    )
    print(f"of which the maps {maps['result'] / 1e6:.0f} MB")
    texts = {
        "features": "features, of plain throughput, at least 0.95",
        "maps": "maps, of the forward's time, below 2.5",
        "memory": "memory beside the maps, of the forward's, at most 1.3",
    }
    for goal, (ratio, others, met) in found.items():
        by = "".join(f", {how} {other:.3f}" for how, other in others.items())
        print(f"{texts[goal]:54s} {ratio:.3f} {'met' if met else 'missed'}{by}")
    if arguments.json:
        result = {**options, **times, "memory": {"forward": forward, "maps": maps}, "ratios": found}
        with open(arguments.json + ".part", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        os.replace(arguments.json + ".part", arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
