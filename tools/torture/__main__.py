"""python -m tools.torture"""

import sys

from tools.torture.command import main

sys.exit(main())
