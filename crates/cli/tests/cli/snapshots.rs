//! Help, usage errors and small outputs, word for word: `tests/snapshots/*.toml`. `TRYCMD=overwrite` renews them.

#[test]
fn snapshots() {
    trycmd::TestCases::new()
        .default_bin_path(env!("CARGO_BIN_EXE_atta"))
        // Help is as wide as here, whatever terminal the tests were started from.
        .env("COLUMNS", "100")
        .env("LC_ALL", "C.UTF-8")
        .case("tests/snapshots/*.toml");
}
