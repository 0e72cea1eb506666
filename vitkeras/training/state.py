"""A run's variables as flat named arrays, and back."""

import numpy as np


def named_variables(groups):
    """Gives every variable a name that is the same in every run of one configuration.

    Args:
        groups: dict of prefix -> iterable of (path, variable).

    Returns:
        dict of "prefix/path" -> variable.

    Raises:
        ValueError: if two variables would have one name; layers then need names of their own.
    """
    named = {}
    for prefix, variables in groups.items():
        for path, variable in variables:
            name = f"{prefix}/{path}"
            if name in named:
                raise ValueError(f"two variables are called {name!r}; give each layer a name of its own.")
            named[name] = variable
    return named


def check_state(variables, state):
    """Raises ValueError unless `state` has exactly one array of the right shape and dtype for each variable.

    Args:
        variables: dict of name -> variable.
        state: dict of name -> array.
    """
    for what, names in (
        ("lacks", sorted(set(variables) - set(state))),
        ("has the unexpected", sorted(set(state) - set(variables))),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise ValueError(f"the state {what} array {names[0]!r}{more}; it belongs to another model or optimizer.")
    for name, variable in variables.items():
        array, dtype = np.asarray(state[name]), _dtype(variable)
        if tuple(array.shape) != tuple(variable.shape):
            raise ValueError(
                f"array {name!r} of the state must have shape {tuple(variable.shape)}, received {tuple(array.shape)}."
            )
        if array.dtype.name != dtype:
            raise ValueError(f"array {name!r} of the state must be {dtype}, received {array.dtype.name}.")


def _dtype(variable):
    return getattr(variable.dtype, "name", variable.dtype)  # a Keras variable has a str, TensorFlow's a DType
