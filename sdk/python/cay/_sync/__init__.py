"""Made of cay/_async by sdk/python/unasync."""
