"""A mock vLLM engine: slots and a queue, service times, and bodies as a real engine sends them, known in advance."""

from mockengine.testing import EngineError, RunningEngine, running

__all__ = ["EngineError", "RunningEngine", "running"]
