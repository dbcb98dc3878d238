"""The output path of an inference server with several HTTP workers, in processes of their own over ZeroMQ.

A scheduler's batches of output tokens become text in a detokenizer, and are split row by row among the HTTP workers.
How a batch is split, above all how often its opaque metadata is decoded, is what the arms of ``splitting`` differ in.
"""
