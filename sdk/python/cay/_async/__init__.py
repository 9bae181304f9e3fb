"""The classes with Async in front. cay/_sync is made of these files: sdk/python/unasync."""
