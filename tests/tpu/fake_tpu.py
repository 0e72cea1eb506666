"""A TPU strategy without a TPU, and a reader of the ops that a step would send to one.

A real `TPUStrategy` object is built on a resolver that claims two TPU cores. Tracing a step in its scope gives the
graph that a TPU host would compile; nothing is run.
"""

import keras
import tensorflow as tf
from tensorflow.python.client import session
from tensorflow.python.distribute import values
from tensorflow.python.framework import kernels
from tensorflow.python.tpu import tpu_system_metadata

REPLICAS = 2
# Compiled by the TPU compiler itself, or about the graph's structure.
STRUCTURE = {
    *("TPUReplicate", "TPUReplicateMetadata", "TPUReplicatedInput", "TPUReplicatedOutput", "TPUCompilationResult"),
    *("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "While", "StatelessWhile", "Case"),
    *("StatelessCase", "_Arg", "_Retval", "Const", "Identity", "IdentityN", "NoOp", "Placeholder"),
    *("CrossReplicaSum", "AllToAll"),
}
REPLICATED = {"_tpu_replicate", "_replication_info", "_xla_compile_device_type"}


class FakeResolver(tf.distribute.cluster_resolver.ClusterResolver):
    """Says that this host has one TPU of two cores."""

    _tpu = "local"

    def cluster_spec(self):
        return tf.train.ClusterSpec({})

    def master(self, *args, **kwargs):
        return ""

    get_master = master

    def get_tpu_system_metadata(self):
        kinds = [("CPU", 0), *(("TPU", core) for core in range(REPLICAS))]
        devices = [
            session._DeviceAttributes(f"/job:localhost/replica:0/task:0/device:{kind}:{i}", kind, 0, i)
            for kind, i in kinds
        ]
        return tpu_system_metadata.TPUSystemMetadata(
            num_cores=REPLICAS, num_hosts=1, num_of_cores_per_host=REPLICAS, topology=None, devices=devices
        )


def trace(make_step):
    """Traces one replicated step.

    Args:
        make_step: function of the strategy, called in its scope; returns (replica function, structure of
            `tf.TensorSpec` for each of its arguments).

    Returns:
        `tf.Graph`.
    """
    with tf.Graph().as_default() as graph:
        strategy = tf.distribute.TPUStrategy(FakeResolver())
        with strategy.scope():
            step, specs = make_step(strategy)
            arguments = keras.tree.map_structure(
                lambda spec: values.PerReplica([tf.zeros(spec.shape, spec.dtype) for _ in range(REPLICAS)]), specs
            )
            strategy.run(step, args=tuple(arguments))
    return graph


def xla_ops():
    """Names of the ops that have a kernel for XLA on this machine's device."""
    tf.function(lambda x: x @ x, jit_compile=True)(tf.eye(2))  # makes TensorFlow register the kernels
    return {k.op for k in kernels.get_all_registered_kernels().kernel if k.device_type == "XLA_CPU_JIT"}


def replicated_ops(graph):
    """Names of all ops of the replicated part of `graph`, those inside the functions it calls included."""
    proto = graph.as_graph_def()
    library = {function.signature.name: function for function in proto.library.function}
    ops, seen = set(), set()

    def enter(name):
        if name in library and name not in seen:
            seen.add(name)
            for node in library[name].node_def:
                visit(node)

    def visit(node):
        if node.op in library:
            return enter(node.op)
        ops.add(node.op)
        for attribute in node.attr.values():
            for function in [attribute.func, *attribute.list.func]:
                enter(function.name)

    for node in proto.node:
        if REPLICATED & set(node.attr):
            visit(node)
    return ops


def unsupported(graph):
    """Sorted names of the replicated ops that XLA has no kernel for."""
    return sorted(replicated_ops(graph) - xla_ops() - STRUCTURE)
