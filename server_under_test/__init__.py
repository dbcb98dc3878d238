"""The proto-once forwarding server: each result is encoded to protobuf once and served as it is."""
