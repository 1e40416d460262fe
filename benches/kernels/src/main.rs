//! Our side of the benchmark: one job, one line of JSON; `run.py` compares it with the peers.

mod attribution;
mod job;
mod machines;
mod networks;
mod tangent;

use std::process::ExitCode;

use serde_json::{Value, json};
use veridical_core::threads::with_threads;

use job::{Options, Outcome};

// The product's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bench-kernels JOB [NAME=VALUE ..]

trntk      net= n= dir= rounds=                    exact kernel of n random inputs; writes inputs, weights and K
project    net= n= dir= k=                         sketch of the gradients of f_0 - f_1, and its error
scores     net= dir= classes= epochs= subsets= seeds=
                                                   training, attributions by TRAK and by removal, retrainings on halves
lds        dir= effects= queries= subsets= seeds=  the score of attributions in a file
labels     net= dir= classes= epochs=              training on wrong labels, and their ranking
logistic   dir= n= classes= lambda=                kernel logistic regression
ridge      n= dim= solver= centers= tolerance=     kernel ridge regression
kendall    dir= n=                                 tau-b of n pairs
gemm                                               operations per second of a large f32 product
about

threads= is 2 unless given. Files in dir are values of one type without a header, little endian.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench-kernels: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Outcome<Value> {
    let (job, options) = args.split_first().ok_or(USAGE)?;
    let options = Options::new(options)?;
    let threads = options.get_or("threads", 2)?;
    with_threads(Some(threads), || match job.as_str() {
        "trntk" => tangent::trntk(&options),
        "project" => tangent::project(&options),
        "gemm" => Ok(json!({"rate": tangent::gemm_rate()})),
        "scores" => attribution::scores(&options),
        "lds" => attribution::lds(&options),
        "labels" => attribution::labels(&options),
        "logistic" => machines::logistic(&options),
        "ridge" => machines::ridge(&options),
        "kendall" => machines::kendall(&options),
        "about" => Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        })),
        _ => Err(USAGE.into()),
    })?
}
