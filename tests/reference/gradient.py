"""Central finite differences: the reference for every gradient."""

import numpy as np


def numerical_gradient(f, x, step=1e-6):
    """Gradient of the scalar function f at x, by (f(x + step) - f(x - step)) / (2 step) in every coordinate."""
    x = np.array(x, float)
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (f(up) - f(down)) / (2 * step)
    return gradient
