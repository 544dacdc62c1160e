//! Names of Jobs and values of labels, which may have fewer characters than names of batches.

use sha2::{Digest as _, Sha256};

use crate::text::to_hex;

/// Maximum length of the value of a label, in bytes.
const LABEL_BYTES_MAX: usize = 63;
/// Maximum length of the beginning of the name of a Job, in bytes. Kubernetes adds five characters,
/// and six more for the name of each pod; all of it must fit into a label.
const PREFIX_BYTES_MAX: usize = 50;
/// The first part of the name of each Job.
const PREFIX: &str = "massgen-";
/// Number of digits of a digest that keeps two names apart.
const DIGEST_DIGITS: usize = 8;

/// Returns the value of the label by which the Jobs of `batch` are found.
pub fn batch_label(batch: &str) -> String {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_end = |c: char| c.is_ascii_alphanumeric();
    let is_value = batch.chars().all(is_inner)
        && batch.starts_with(is_end)
        && batch.ends_with(is_end)
        && batch.len() <= LABEL_BYTES_MAX;
    if is_value {
        batch.to_owned()
    } else {
        with_digest(batch, LABEL_BYTES_MAX)
    }
}

/// Returns the beginning of the names of the Jobs of `batch`, which Kubernetes completes.
pub fn job_name_prefix(batch: &str) -> String {
    let short_name = batch.strip_prefix("batch_").unwrap_or(batch);
    let label = as_dns_label(short_name);
    let length_max = PREFIX_BYTES_MAX.saturating_sub(PREFIX.len());
    let name = if label.len() < length_max && label == short_name.replace('_', "-") {
        label
    } else {
        with_digest(short_name, length_max.saturating_sub(1))
    };
    format!("{PREFIX}{name}-")
}

/// Returns `name` as a DNS label of at most `bytes_max` bytes that ends in a digest of the name.
fn with_digest(name: &str, bytes_max: usize) -> String {
    let whole_digest = to_hex(&Sha256::digest(name.as_bytes()));
    let digest: String = whole_digest.chars().take(DIGEST_DIGITS).collect();
    let prefix_max = bytes_max.saturating_sub(DIGEST_DIGITS.saturating_add(1));
    let prefix: String = as_dns_label(name).chars().take(prefix_max).collect();
    let prefix = prefix.trim_matches('-');
    if prefix.is_empty() {
        digest
    } else {
        format!("{prefix}-{digest}")
    }
}

/// Replaces the characters that a DNS label cannot contain.
fn as_dns_label(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = lower.replace(|c| !is_plain(c), "-");
    label.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_batches_become_labels_and_parts_of_names() {
        let name = "batch_20261102_140322_0a1b";
        assert_eq!(batch_label(name), name);
        assert_eq!(job_name_prefix(name), "massgen-20261102-140322-0a1b-");
        let long = "x".repeat(300);
        let names = ["batch_", "", "_a_", "Größe/..", "a b", "a\nb", "A", &long];
        let mut labels = std::collections::BTreeSet::new();
        for name in names {
            let label = batch_label(name);
            let is_end = |c: char| c.is_ascii_alphanumeric();
            assert!(label.len() <= 63 && !label.is_empty(), "{label}");
            assert!(
                label.starts_with(is_end) && label.ends_with(is_end),
                "{label}"
            );
            assert!(labels.insert(label), "{name}");
            // With what Kubernetes adds for the Job and for the pod.
            let pod = format!("{}abcde-fghij", job_name_prefix(name));
            assert!(pod.len() <= 63, "{pod}");
            let is_dns = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(pod.chars().all(is_dns), "{pod}");
        }
    }
}
