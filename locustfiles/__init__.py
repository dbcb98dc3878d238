"""The load: Locust users that behave as SDK clients of a future-polling API, and the ledger of their futures."""
