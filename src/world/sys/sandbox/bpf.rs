//! Compiles seccomp filters: from a rule per system call to BPF instructions. Numbers are found by
//! binary search, because the kernel runs the program for every existing number when it is
//! installed, and for most calls afterwards.

use std::collections::BTreeMap;

use libc::{c_int, c_long, sock_filter};

/// The layout of `struct seccomp_data`, in bytes: the number, the architecture, the address of the
/// call, and then the arguments of eight bytes each.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const ARGUMENTS_OFFSET: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// The architecture whose numbering of calls is used (`linux/audit.h`).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Up to this many numbers are compared linearly.
const LINEAR_MAX: usize = 3;

/// A compiled program, or the error that prevents it.
pub(crate) type BpfProgramResult = Result<Vec<sock_filter>, JumpTooLong>;

/// A jump would be longer than an instruction can encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filter of system calls is too long")]
pub(crate) struct JumpTooLong;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeccompAction {
    /// It is executed.
    Allow,
    /// It fails with this error.
    Fail(c_int),
    /// It waits for an answer from the listener.
    Notify,
}

/// What happens to a call that a program must not make.
pub(crate) const DENIED: SeccompAction = SeccompAction::Fail(libc::EPERM);

/// What is checked of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeccompRule {
    /// Only its number.
    Always(SeccompAction),
    /// Its arguments: the first matching case decides.
    Cases(&'static [SeccompCase], SeccompAction),
}

/// Conditions on the arguments of a call, and what happens to a call that meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeccompCase {
    /// All of these must hold.
    pub(crate) checks: &'static [ArgumentCheck],
    /// What happens to such a call.
    pub(crate) action: SeccompAction,
}

/// A check of the lower four bytes of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentCheck {
    /// The index of the argument, from 0.
    pub(crate) index: u8,
    /// The bits that are compared.
    pub(crate) mask: u32,
    /// The values that it may have.
    pub(crate) values: &'static [u32],
}

/// Compiles `rules` into a program that allows calls without a rule; of two rules for a call, the
/// later one wins. Calls of another architecture kill the process; calls numbered `unknown_from` or
/// higher do not exist (`ENOSYS`).
pub(crate) fn compile_rules(
    rules: &[(c_long, SeccompRule)],
    unknown_from: u32,
) -> BpfProgramResult {
    let mut rules_by_number = BTreeMap::new();
    for (number, rule) in rules {
        rules_by_number.insert(u32::try_from(*number).map_err(|_| JumpTooLong)?, *rule);
    }
    let sorted_rules: Vec<(u32, SeccompRule)> = rules_by_number.into_iter().collect();
    let mut program = vec![
        load_word(ARCHITECTURE_OFFSET),
        jump_if_equal(ARCHITECTURE, 1, 0),
        return_value(libc::SECCOMP_RET_KILL_PROCESS),
        load_word(NUMBER_OFFSET),
        jump_if_at_least(unknown_from, 0, 1),
        return_action(SeccompAction::Fail(libc::ENOSYS)),
    ];
    program.extend(compile_search(&sorted_rules)?);
    Ok(program)
}

fn compile_search(rules: &[(u32, SeccompRule)]) -> BpfProgramResult {
    let middle = rules.len() / 2;
    match rules.split_at_checked(middle) {
        Some((lower, upper @ [(first, _), ..])) if rules.len() > LINEAR_MAX => {
            let lower = compile_search(lower)?;
            // Only an unconditional jump may be long.
            let mut program = vec![jump_if_at_least(*first, 0, 1), jump_over(lower.len())?];
            program.extend(lower);
            program.extend(compile_search(upper)?);
            Ok(program)
        }
        _ => {
            let mut program = Vec::new();
            for (number, rule) in rules {
                let rule_program = compile_rule(*rule)?;
                program.push(jump_if_equal(*number, 0, jump_length(&rule_program)?));
                program.extend(rule_program);
            }
            program.push(return_action(SeccompAction::Allow));
            Ok(program)
        }
    }
}

fn compile_rule(rule: SeccompRule) -> BpfProgramResult {
    let (cases, otherwise) = match rule {
        SeccompRule::Always(action) => return Ok(vec![return_action(action)]),
        SeccompRule::Cases(cases, otherwise) => (cases, otherwise),
    };
    let mut program = Vec::new();
    for case in cases {
        let mut case_program = vec![return_action(case.action)];
        for check in case.checks.iter().rev() {
            let mut check_program = compile_check(*check)?;
            check_program.push(jump_over(case_program.len())?);
            check_program.append(&mut case_program);
            case_program = check_program;
        }
        program.append(&mut case_program);
    }
    program.push(return_action(otherwise));
    Ok(program)
}

/// Skips the next instruction if the argument passes the check.
fn compile_check(check: ArgumentCheck) -> BpfProgramResult {
    let argument = ARGUMENTS_OFFSET + u32::from(check.index) * ARGUMENT_BYTES;
    let mut program = vec![load_word(argument), and_mask(check.mask)];
    for (index, value) in check.values.iter().enumerate() {
        let jump = check.values.len() - index;
        let jump = u8::try_from(jump).map_err(|_| JumpTooLong)?;
        program.push(jump_if_equal(*value, jump, 0));
    }
    Ok(program)
}

fn jump_length(program: &[sock_filter]) -> Result<u8, JumpTooLong> {
    u8::try_from(program.len()).map_err(|_| JumpTooLong)
}

fn load_word(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn and_mask(mask: u32) -> sock_filter {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0)
}

fn jump_if_equal(value: u32, if_so: u8, if_not: u8) -> sock_filter {
    instruction(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        value,
        if_so,
        if_not,
    )
}

fn jump_if_at_least(value: u32, if_so: u8, if_not: u8) -> sock_filter {
    instruction(
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        value,
        if_so,
        if_not,
    )
}

fn jump_over(count: usize) -> Result<sock_filter, JumpTooLong> {
    let count = u32::try_from(count).map_err(|_| JumpTooLong)?;
    Ok(instruction(libc::BPF_JMP | libc::BPF_JA, count, 0, 0))
}

fn return_value(answer: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, answer, 0, 0)
}

fn return_action(action: SeccompAction) -> sock_filter {
    return_value(match action {
        SeccompAction::Allow => libc::SECCOMP_RET_ALLOW,
        SeccompAction::Notify => libc::SECCOMP_RET_USER_NOTIF,
        SeccompAction::Fail(error) => {
            libc::SECCOMP_RET_ERRNO | (error.unsigned_abs() & libc::SECCOMP_RET_DATA)
        }
    })
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt,
        jf,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the kernel's answer by interpreting the program as the kernel does.
    fn answer(program: &[sock_filter], architecture: u32, number: u32, arguments: [u32; 2]) -> u32 {
        let (mut index, mut value) = (0, 0);
        loop {
            let step = program[index];
            index += 1;
            match u32::from(step.code) {
                0x20 => {
                    value = match step.k {
                        NUMBER_OFFSET => number,
                        ARCHITECTURE_OFFSET => architecture,
                        16 => arguments[0],
                        24 => arguments[1],
                        other => panic!("nothing stands at {other}"),
                    };
                }
                0x54 => value &= step.k,
                0x15 => index += usize::from(if value == step.k { step.jt } else { step.jf }),
                0x35 => index += usize::from(if value >= step.k { step.jt } else { step.jf }),
                0x05 => index += usize::try_from(step.k).unwrap(),
                0x06 => return step.k,
                other => panic!("{other:#x} is no instruction"),
            }
        }
    }

    fn known_filter() -> Vec<sock_filter> {
        let mut rules: Vec<(c_long, SeccompRule)> = (0..40)
            .map(|number| (number * 5, SeccompRule::Always(DENIED)))
            .collect();
        let one_or_two = ArgumentCheck {
            index: 1,
            mask: 0xff,
            values: &[1, 2],
        };
        let seven = ArgumentCheck {
            index: 0,
            mask: u32::MAX,
            values: &[7],
        };
        let cases: &[SeccompCase] = &[
            SeccompCase {
                checks: Box::leak(Box::new([one_or_two, seven])),
                action: SeccompAction::Notify,
            },
            SeccompCase {
                checks: Box::leak(Box::new([one_or_two])),
                action: SeccompAction::Allow,
            },
        ];
        rules.insert(0, (0, SeccompRule::Always(SeccompAction::Allow)));
        rules.insert(
            0,
            (301, SeccompRule::Cases(Box::leak(cases.into()), DENIED)),
        );
        compile_rules(&rules, 400).unwrap()
    }

    #[track_caller]
    fn check(number: u32, arguments: [u32; 2], expected: SeccompAction) {
        let answer = answer(&known_filter(), ARCHITECTURE, number, arguments);
        assert_eq!(answer, return_action(expected).k, "{number}({arguments:?})");
    }

    #[test]
    fn each_number_meets_its_own_rule() {
        for number in 0..300 {
            let is_denied = number % 5 == 0 && number < 200;
            check(
                number,
                [0, 0],
                if is_denied {
                    DENIED
                } else {
                    SeccompAction::Allow
                },
            );
        }
    }

    #[test]
    fn the_first_case_that_fits_decides() {
        check(301, [7, 1], SeccompAction::Notify);
        check(301, [7, 2], SeccompAction::Notify);
        check(301, [8, 1], SeccompAction::Allow);
        check(301, [8, 0x102], SeccompAction::Allow);
        check(301, [7, 3], DENIED);
        check(301, [0, 0], DENIED);
    }

    #[test]
    fn unknown_system_calls_fail_with_enosys() {
        check(399, [0, 0], SeccompAction::Allow);
        check(400, [0, 0], SeccompAction::Fail(libc::ENOSYS));
        check(0x4000_0001, [0, 0], SeccompAction::Fail(libc::ENOSYS));
        let elsewhere = answer(&known_filter(), 0x4000_0003, 1, [0, 0]);
        assert_eq!(elsewhere, libc::SECCOMP_RET_KILL_PROCESS);
    }
}
