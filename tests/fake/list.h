/* The backends of a test: the one that fails on request, and the one behind it. */
CG_BACKEND(faulty)
CG_BACKEND(cpu)
