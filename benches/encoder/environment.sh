# PyTorch allocates every temporary with malloc: without these settings glibc returns large ones to the system at once, and maps
# them again page by page. Ours has its own allocator.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456
