# implicit brings its own threads and asks for one BLAS thread.
export OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
