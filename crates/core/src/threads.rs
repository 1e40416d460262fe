//! How many threads a job may use.

use crate::Error;

/// More threads than any machine has cores; a thousand times more would only freeze it.
const MAX_THREADS: usize = 1024;

/// Runs `job` on a pool of `threads` workers; `None` takes every core.
///
/// # Errors
/// [`Error::Param`] for zero or too many threads, [`Error::System`] when the pool cannot be built.
pub fn with_threads<R: Send>(
    threads: Option<usize>,
    job: impl FnOnce() -> R + Send,
) -> Result<R, Error> {
    if let Some(n) = threads.filter(|n| !(1..=MAX_THREADS).contains(n)) {
        return Err(Error::param("threads", "from 1 to 1024", n));
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
        for n in [0, 1025] {
            let message = with_threads(Some(n), || ()).unwrap_err().to_string();
            assert_eq!(message, format!("threads must be from 1 to 1024, got {n}"));
        }
    }
}
