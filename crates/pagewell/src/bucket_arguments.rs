//! Options of a process that keeps buckets open.

use clap::Args;
use pagewell_monitor::metrics::{Prices, set_prices};

use crate::writing_arguments::WritingArguments;

/// See the module's text.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options for buckets")]
pub(crate) struct BucketArguments {
    /// How they are changed.
    #[command(flatten)]
    pub writing: WritingArguments,

    /// What stores ask for requests and bytes, for estimates that 'pagewell top' and the page show:
    /// get=, head=, list=, put=, delete= (for 1,000), download= (for a GB of 10^9 bytes),
    /// currency=, separated by commas; others cost nothing [default: those of one store, which is
    /// named where they are used]
    #[arg(long, value_name = "LIST", value_parser = Prices::parse)]
    pub object_prices: Option<Prices>,
}

impl BucketArguments {
    /// Uses the given prices for estimates.
    pub(crate) fn use_prices(&self) {
        if let Some(prices) = &self.object_prices {
            set_prices(prices.clone());
        }
    }
}
