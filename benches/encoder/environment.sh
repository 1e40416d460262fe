# PyTorch asks malloc for every temporary: without these glibc gives large ones back to the system at once, and takes them
# again page by page. Ours brings its own allocator.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456
