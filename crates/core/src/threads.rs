//! How many threads a job may use.

use crate::Error;

/// Runs `job` on a pool of `threads` workers; `None` takes every core.
///
/// # Errors
/// [`Error::Param`] for zero threads, [`Error::System`] when the pool cannot be built.
pub fn with_threads<R: Send>(
    threads: Option<usize>,
    job: impl FnOnce() -> R + Send,
) -> Result<R, Error> {
    if threads == Some(0) {
        return Err(Error::param("threads", "at least 1", 0));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0)) // rayon reads 0 as "every core"
        .build()
        .map_err(|e| Error::System { what: "start worker threads", why: e.to_string() })?;
    Ok(pool.install(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_has_the_size_asked_for() {
        assert_eq!(with_threads(Some(3), rayon::current_num_threads).unwrap(), 3);
        let message = with_threads(Some(0), || ()).unwrap_err().to_string();
        assert_eq!(message, "threads must be at least 1, got 0");
    }
}
