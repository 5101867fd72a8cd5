/* A row for each backend, in the order in which CELLGRAD_BACKEND unset tries them. */
CG_BACKEND(opencl)
CG_BACKEND(cpu)
