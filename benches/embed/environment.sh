# implicit uses its own threads and requires a single BLAS thread.
export OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
