//! The numbers in the text of Ahn et al. 2013. Its figures are pictures, and no number is taken from one.

/// Shared libraries of KULL, and the executable (section V.A).
pub(crate) const KULL_FILES: u32 = 849;

/// Files of the two smaller applications, which have 19 and 31 libraries.
pub(crate) const SMALL_FILES: [u32; 2] = [20, 32];

/// Processes of the small and of the large measurement of consistency.
pub(crate) const SMALL_RANKS: u32 = 512;
pub(crate) const LARGE_RANKS: u32 = 32_768;

/// Seconds until all of 512 processes had the checksums of all files of the smaller applications.
pub(crate) const SMALL_CHECKSUM_S: [f64; 2] = [18.032, 55.470];

/// Seconds of `isConsistent` for the same.
pub(crate) const SMALL_CONSISTENT_S: f64 = 0.002;

/// Seconds of `isConsistent` for KULL on 32,768 processes, at most.
pub(crate) const KULL_CONSISTENT_S: f64 = 7.0;

/// Milliseconds of `isUnique` for all files of KULL on 32,768 processes: asynchronous with its map, and synchronous.
pub(crate) const KULL_UNIQUE_MS: [f64; 2] = [30.0, 272.0];

/// Calls of open on 16,384 processes when KULL was first run (section II.A).
pub(crate) const FIRST_OPENS: f64 = 300e6;

/// Processes, and seconds until KULL was loaded when it was first run: an hour, and more than ten.
pub(crate) const FIRST_LOAD_S: [(u32, f64); 2] = [(2048, 3600.0), (16_384, 36_000.0)];

/// The same with fewer calls of open.
pub(crate) const TUNED_LOAD_S: [(u32, f64); 2] = [(16_384, 18.6 * 60.0), (32_768, 37.1 * 60.0)];

/// Bytes of KULL with all libraries in the executable (section V.B).
pub(crate) const KULL_BYTES: f64 = 1.7e9;

/// Processes, and seconds in which STAT attached and sampled with multicasts; the second part always took 11 s.
pub(crate) const MULTICAST_S: [(u32, f64); 2] = [(16_384, 67.87), (32_768, 72.43)];
pub(crate) const SAMPLE_S: f64 = 11.0;

/// Processes, and seconds in which STAT did so when each daemon read the file: nearly an hour.
pub(crate) const DIRECT_S: (u32, f64) = (16_384, 3600.0);

/// How far a prediction is off.
pub(crate) fn error(predicted: f64, measured: f64) -> f64 {
    predicted / measured - 1.0
}
