"""Makes ``locust -f locustfiles/soak.py --help`` list repoll's options; installed under the name ``locust_plugins``.

Locust prints its help before it loads the locustfile, so that options of a locustfile are never in it. The one thing it
imports before is a module of that name, "to allow for registering custom arguments" (locust/main.py). With anything but
help for the soak's locustfile this does nothing.
"""

from __future__ import annotations

import sys

from locust import events

from locustfiles.options import add_arguments

if {"-h", "--help"} & set(sys.argv) and any(argument.endswith("soak.py") for argument in sys.argv):
    events.init_command_line_parser.add_listener(add_arguments)
