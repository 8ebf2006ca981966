"""`python -m trainlab` is the command `trainlab`."""

import sys

from trainlab.cli import main

sys.exit(main())
