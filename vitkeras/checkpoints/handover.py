"""Giving an array's memory to a variable without a copy.

A backend that is given a NumPy array copies it, because its owner may write to it later: TensorFlow once for that, and
once more unless the memory starts at a multiple of 64 bytes; PyTorch once. An object that isn't an array and only knows
how to become one is taken as it is.
"""

import math

import keras
import numpy as np

ALIGNMENT = 64  # bytes; what TensorFlow and JAX ask of memory that they take over


class HandedOver:
    """An array whose owner gives it away: who converts it may keep its memory, and nobody writes to it afterwards.

    Args:
        array: NumPy array.
    """

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        # A copy is asked for to be safe from the owner's later writes; there are none.
        return self._array if dtype in (None, self._array.dtype) else self._array.astype(dtype)


def aligned_empty(shape, dtype):
    """Returns an uninitialised array in C order that starts at a multiple of 64 bytes.

    Args:
        shape: tuple of ints.
        dtype: NumPy dtype.
    """
    dtype = np.dtype(dtype)
    size = dtype.itemsize * math.prod(shape)
    # Without a margin first: the buffer that the variable before this one left is aligned and has just this size.
    memory = np.empty(size, "u1")
    if memory.ctypes.data % ALIGNMENT:
        del memory
        memory = np.empty(size + ALIGNMENT, "u1")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def hand_over(variable, array):
    """Assigns `array` to a variable of as many values, which keeps the array's memory if its backend can.

    Args:
        variable: `keras.Variable`.
        array: NumPy float array that nobody else reads or writes afterwards: an optimizer may update the variable in
            place. It is copied once where it isn't contiguous or aligned.
    """
    if not array.flags.c_contiguous or array.ctypes.data % ALIGNMENT:
        own = aligned_empty(array.shape, array.dtype)
        own[...] = array
        array = own
    given = HandedOver(array.reshape(tuple(variable.shape)))
    # In the array's own dtype first: what isn't an array is taken over only if nothing is to be converted.
    variable.assign(keras.ops.convert_to_tensor(given, dtype=array.dtype.name))
