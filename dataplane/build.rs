//! Link arguments that a Node addon needs.

fn main() {
    #[cfg(feature = "node")]
    napi_build::setup();
}
