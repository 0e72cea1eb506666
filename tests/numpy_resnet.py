"""An independent forward pass of the paper's ResNet in NumPy float64; arrays in the original's names.

Legend: B batch, H W map height and width, C input channels, F output channels, k kernel, s stride, G groups.
"""

import numpy as np


def same_padding(size, kernel, stride):
    """(before, after): what makes ceil(size / stride) windows; an odd one lies at the end."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def windows(x, kernel, strides, fill):
    """(B, H', W', k, k, C): what each position of a SAME window sees, one slice an offset of the kernel."""
    pads = [same_padding(size, k, s) for size, k, s in zip(x.shape[1:3], kernel, strides)]
    x = np.pad(np.asarray(x, "float64"), ((0, 0), *pads, (0, 0)), constant_values=fill)
    height, width = ((size - k) // s + 1 for size, k, s in zip(x.shape[1:3], kernel, strides))
    out = np.empty((x.shape[0], height, width, *kernel, x.shape[-1]))
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows, columns = (slice(o, o + n * s, s) for o, n, s in ((i, height, strides[0]), (j, width, strides[1])))
            out[:, :, :, i, j] = x[:, rows, columns]
    return out


def standardise(kernel, epsilon=1e-5):
    """(k, k, C, F) with mean 0 and deviation 1 for each F; epsilon outside the root."""
    kernel = np.asarray(kernel, "float64")
    return (kernel - kernel.mean((0, 1, 2))) / (kernel.std((0, 1, 2)) + epsilon)


def std_conv(x, kernel, strides=(1, 1), epsilon=1e-5):
    return np.einsum("bhwijc,ijcf->bhwf", windows(x, kernel.shape[:2], strides, 0), standardise(kernel, epsilon))


def group_norm(x, scale, bias, groups=32, epsilon=1e-6):
    b, h, w, c = x.shape
    x = np.asarray(x, "float64").reshape(b, h, w, groups, c // groups)
    axes = (1, 2, 4)
    x = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
    return x.reshape(b, h, w, c) * scale + bias


def max_pool(x, size=3, stride=2):
    return windows(x, (size, size), (stride, stride), -np.inf).max((3, 4))


def relu(x):
    return np.maximum(x, 0)


def residual_unit(x, arrays, prefix, stride):
    """`arrays` holds PREFIX/conv1/kernel, PREFIX/gn1/scale, ...; a projection if there is one."""

    def convolved(value, part, strides=(1, 1)):
        value = std_conv(value, arrays[f"{prefix}/conv{part}/kernel"], strides)
        return group_norm(value, arrays[f"{prefix}/gn{part}/scale"], arrays[f"{prefix}/gn{part}/bias"])

    y = relu(convolved(x, "1"))
    y = relu(convolved(y, "2", (stride, stride)))
    y = convolved(y, "3")
    return relu(y + (convolved(x, "_proj", (stride, stride)) if f"{prefix}/conv_proj/kernel" in arrays else x))


def resnet_body(arrays, images, blocks):
    """Returns (root, map): after `gn_root`'s ReLU and pooling, and after the last unit."""
    x = std_conv(images, arrays["conv_root/kernel"], (2, 2))
    x = root = max_pool(relu(group_norm(x, arrays["gn_root/scale"], arrays["gn_root/bias"])))
    for b, units in enumerate(blocks):
        for u in range(units):
            x = residual_unit(x, arrays, f"block{b + 1}/unit{u + 1}", 2 if b and not u else 1)
    return root, x
