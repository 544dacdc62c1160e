//! How agents are asked to work within a round. These are requests in their system messages, which
//! nothing enforces.

/// How agents are asked to work within a round.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of the config, and they do not depend on each other"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundGuidance {
    /// Whether they write down their decisions (`enable_changedoc`).
    pub keeps_decisions: bool,
    /// Whether they submit as soon as their work holds together (`fast_iteration_mode`).
    pub submits_early: bool,
    /// How often they check their work (`max_verifications_per_round`).
    pub verifications_max: Option<u32>,
    /// How often they repair and check again (`max_internal_fix_loops`).
    pub repairs_max: Option<u32>,
    /// Whether they continue the documents in their workspace (`skip_redundant_scaffolding`).
    pub continues_documents: bool,
    /// Whether they leave a skill for later sessions (`load_previous_session_skills`).
    pub leaves_skill: bool,
    /// When they leave notes for later sessions (`learning_capture_mode`).
    pub notes: NotesTiming,
}

/// When agents leave notes for later sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotesTiming {
    /// In every round and in the final phase.
    #[default]
    EveryRound,
    /// In the final phase; in every round only how they checked their answer.
    VerificationsAndFinal,
    /// In the final phase.
    Final,
}
