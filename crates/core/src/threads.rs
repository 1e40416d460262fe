//! The number of threads a job may use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// More threads than any machine has cores; a thousand times more would only freeze it.
const MAX_THREADS: usize = 1024;

/// Runs `job` on a pool of `threads` workers; `None` uses every core.
///
/// # Errors
/// [`Error::Setting`] for zero or too many threads, [`Error::System`] when the pool cannot be built.
pub fn with_threads<R: Send>(
    threads: Option<usize>,
    job: impl FnOnce() -> R + Send,
) -> Result<R, Error> {
    if let Some(n) = threads.filter(|n| !(1..=MAX_THREADS).contains(n)) {
        return Err(Error::setting("threads", "from 1 to 1024", n));
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0)) // rayon reads 0 as "every core"
        .build()
        .map_err(|e| Error::System { what: "start worker threads", why: e.to_string() })?;
    Ok(pool.install(job))
}

/// Runs all jobs, one thread each, as many at a time as the pool has threads, and returns the results in the order of the jobs. After
/// an error, no further jobs are started.
///
/// ```
/// use veridical_core::Error;
/// use veridical_core::threads::side_by_side;
///
/// let squares = side_by_side(&[1, 2, 3], |x| Ok::<i32, Error>(x * x))?;
/// assert_eq!(squares, [1, 4, 9]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// The error of the first job, in their order, that failed.
pub fn side_by_side<J: Sync, T: Send, E: From<Error> + Send>(
    jobs: &[J],
    work: impl Fn(&J) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<T, E>)>> = Mutex::new(Vec::new());
    let worker = || {
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(job) = jobs.get(at)
        {
            let outcome = with_threads(Some(1), || work(job)).unwrap_or_else(|e| Err(e.into()));
            if outcome.is_err() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..rayon::current_num_threads().min(jobs.len()) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_has_the_size_requested() {
        assert_eq!(with_threads(Some(3), rayon::current_num_threads).unwrap(), 3);
        for n in [0, 1025] {
            let message = with_threads(Some(n), || ()).unwrap_err().to_string();
            assert_eq!(message, format!("⟨threads⟩ must be from 1 to 1024, got {n}"));
        }
    }

    #[test]
    fn jobs_side_by_side_keep_their_order_and_the_first_error_counts() {
        let jobs: Vec<u32> = (0..40).collect();
        let squares = side_by_side(&jobs, |&j| Ok::<_, Error>(j * j)).unwrap();
        assert_eq!(squares, jobs.iter().map(|j| j * j).collect::<Vec<_>>());
        let odd = |&j: &u32| if j == 3 { Err(Error::missing("three", "")) } else { Ok(j) };
        assert_eq!(side_by_side(&jobs, odd).unwrap_err().to_string(), "three");
    }
}
