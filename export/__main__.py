"""`python -m export` in a checkout, `python -m vitkeras.export` when installed."""

import sys

from .cli import main

sys.exit(main())
