//! The program: everything it does is in the library, where it can be tested.

fn main() -> std::process::ExitCode {
    pagewell::run(std::env::args_os())
}
