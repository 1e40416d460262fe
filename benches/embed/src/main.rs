//! `bench-embed METHOD ...`: times one method and prints one line of JSON; `run.sh` sets it beside the
//! peer of the same name in `peers/`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let method = arguments.next().unwrap_or_default();
    eprintln!("there is no method `{method}`");
    std::process::exit(2);
}
