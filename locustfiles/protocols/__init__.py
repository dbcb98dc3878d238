"""What each future-polling API says on the wire. Pure: requests are built and answers read, nothing is sent."""
