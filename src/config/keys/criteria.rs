//! The keys of a criterion by which voters score answers.

section! {
    /// A criterion that voters give a score from 0 to 10.
    pub static CRITERION = "orchestrator.coordination.checklist_criteria_inline[]";

    /// What an answer has to be like, as the agents read it.
    const TEXT = ["text"] text().make_required();
    unsupported ["category", "verify_by", "anti_patterns", "score_anchors"] Convenience,
        "all criteria count alike, and agents read their texts";
}
