"""The wire format of results. ``sampling_pb2`` is generated from ``sampling.proto`` by ``make proto``."""

from server_under_test.proto.sampling_pb2 import (
    SampledSequence,
    SampleResponse,
    StopReason,
    TopkLogprobs,
)

__all__ = ["SampleResponse", "SampledSequence", "StopReason", "TopkLogprobs"]
