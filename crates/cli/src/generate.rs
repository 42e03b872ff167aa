//! placeholder
use clap::Args;
#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {}
pub(crate) fn run(_: &GenerateArgs, _: &crate::signals::Signals) -> u8 {
    0
}
