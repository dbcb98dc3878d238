"""The soak: clients follow futures through a server until the count is reached. Run it with

    locust -f locustfiles/soak.py --headless

Everything is in the package ``locustfiles``; Locust loads this file by its path, outside the package.
"""

from locustfiles.hooks import install
from locustfiles.user import FuturesUser

__all__ = ["FuturesUser"]

install()
