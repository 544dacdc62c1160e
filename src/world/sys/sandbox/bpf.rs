//! Owns the making of a program by which the kernel judges system calls: from a rule for each call
//! to instructions. The numbers are searched by halves, because the kernel runs the program for
//! every number there is when it takes it over, and for most calls after that.

use std::collections::BTreeMap;

use libc::{c_int, c_long, sock_filter};

/// What `struct seccomp_data` begins with, in bytes: the number, the architecture, the place of the
/// call, and then the arguments of eight bytes each.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

/// The machine that the calls are numbered for (`linux/audit.h`).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Up to this many numbers are compared one after the other.
const LINEAR_MAX: usize = 3;

/// The program that is being made, and why it cannot be.
pub(crate) type Program = Result<Vec<sock_filter>, TooLong>;

/// A jump would be longer than an instruction can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the filter of system calls is too long")]
pub(crate) struct TooLong;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is made.
    Allow,
    /// It fails with this error.
    Fail(c_int),
    /// It waits for an answer from whoever listens.
    Notify,
}

/// What is looked at of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nothing more than its number.
    Always(Verdict),
    /// Its arguments: the first case that they fit decides.
    Cases(&'static [Case], Verdict),
}

/// Arguments that a call may have, and what becomes of it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// All of these hold.
    pub(crate) checks: &'static [Check],
    /// What becomes of such a call.
    pub(crate) verdict: Verdict,
}

/// A look at one argument, of which the lower four bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    /// Which one, from 0.
    pub(crate) index: u8,
    /// The bits that count.
    pub(crate) mask: u32,
    /// The values that it may have.
    pub(crate) values: &'static [u32],
}

/// A program that holds calls to `rules` and allows those that have none; of two rules for a call
/// the later one counts. Calls of another architecture end the process; numbers from `unknown_from`
/// up do not exist.
pub(crate) fn program(rules: &[(c_long, Rule)], unknown_from: u32) -> Program {
    let mut sorted = BTreeMap::new();
    for (number, rule) in rules {
        sorted.insert(u32::try_from(*number).map_err(|_| TooLong)?, *rule);
    }
    let sorted: Vec<(u32, Rule)> = sorted.into_iter().collect();
    let mut program = vec![
        load(ARCHITECTURE_AT),
        equal(ARCHITECTURE, 1, 0),
        give(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER_AT),
        at_least(unknown_from, 0, 1),
        verdict(Verdict::Fail(libc::ENOSYS)),
    ];
    program.extend(search(&sorted)?);
    Ok(program)
}

fn search(rules: &[(u32, Rule)]) -> Program {
    let middle = rules.len() / 2;
    match rules.split_at_checked(middle) {
        Some((lower, upper @ [(first, _), ..])) if rules.len() > LINEAR_MAX => {
            let lower = search(lower)?;
            // Only a jump without a condition may be long.
            let mut program = vec![at_least(*first, 0, 1), skip(lower.len())?];
            program.extend(lower);
            program.extend(search(upper)?);
            Ok(program)
        }
        _ => {
            let mut program = Vec::new();
            for (number, rule) in rules {
                let judgement = judgement(*rule)?;
                program.push(equal(*number, 0, length(&judgement)?));
                program.extend(judgement);
            }
            program.push(verdict(Verdict::Allow));
            Ok(program)
        }
    }
}

fn judgement(rule: Rule) -> Program {
    let (cases, otherwise) = match rule {
        Rule::Always(always) => return Ok(vec![verdict(always)]),
        Rule::Cases(cases, otherwise) => (cases, otherwise),
    };
    let mut program = Vec::new();
    for case in cases {
        let mut fits = vec![verdict(case.verdict)];
        for check in case.checks.iter().rev() {
            let mut look = look(*check)?;
            look.push(skip(fits.len())?);
            look.append(&mut fits);
            fits = look;
        }
        program.append(&mut fits);
    }
    program.push(verdict(otherwise));
    Ok(program)
}

/// Passes over the next instruction if the argument is as it should be.
fn look(check: Check) -> Program {
    let argument = ARGUMENTS_AT + u32::from(check.index) * ARGUMENT_BYTES;
    let mut program = vec![load(argument), keep(check.mask)];
    for (at, value) in check.values.iter().enumerate() {
        let past_the_rest = check.values.len() - at;
        let past_the_rest = u8::try_from(past_the_rest).map_err(|_| TooLong)?;
        program.push(equal(*value, past_the_rest, 0));
    }
    Ok(program)
}

fn length(program: &[sock_filter]) -> Result<u8, TooLong> {
    u8::try_from(program.len()).map_err(|_| TooLong)
}

fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

fn keep(mask: u32) -> sock_filter {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0)
}

fn equal(value: u32, if_so: u8, if_not: u8) -> sock_filter {
    instruction(
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        value,
        if_so,
        if_not,
    )
}

fn at_least(value: u32, if_so: u8, if_not: u8) -> sock_filter {
    instruction(
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
        value,
        if_so,
        if_not,
    )
}

fn skip(count: usize) -> Result<sock_filter, TooLong> {
    let count = u32::try_from(count).map_err(|_| TooLong)?;
    Ok(instruction(libc::BPF_JMP | libc::BPF_JA, count, 0, 0))
}

fn give(answer: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, answer, 0, 0)
}

fn verdict(verdict: Verdict) -> sock_filter {
    give(match verdict {
        Verdict::Allow => libc::SECCOMP_RET_ALLOW,
        Verdict::Notify => libc::SECCOMP_RET_USER_NOTIF,
        Verdict::Fail(error) => {
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

    const DENIED: Verdict = Verdict::Fail(libc::EPERM);

    /// What the kernel would answer, which runs the program as this does.
    fn answer(program: &[sock_filter], architecture: u32, number: u32, arguments: [u32; 2]) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match u32::from(step.code) {
                0x20 => {
                    value = match step.k {
                        NUMBER_AT => number,
                        ARCHITECTURE_AT => architecture,
                        16 => arguments[0],
                        24 => arguments[1],
                        other => panic!("nothing stands at {other}"),
                    };
                }
                0x54 => value &= step.k,
                0x15 => at += usize::from(if value == step.k { step.jt } else { step.jf }),
                0x35 => at += usize::from(if value >= step.k { step.jt } else { step.jf }),
                0x05 => at += usize::try_from(step.k).unwrap(),
                0x06 => return step.k,
                other => panic!("{other:#x} is no instruction"),
            }
        }
    }

    fn known() -> Vec<sock_filter> {
        let mut rules: Vec<(c_long, Rule)> = (0..40)
            .map(|number| (number * 5, Rule::Always(DENIED)))
            .collect();
        let one_or_two = Check {
            index: 1,
            mask: 0xff,
            values: &[1, 2],
        };
        let seven = Check {
            index: 0,
            mask: u32::MAX,
            values: &[7],
        };
        let cases: &[Case] = &[
            Case {
                checks: Box::leak(Box::new([one_or_two, seven])),
                verdict: Verdict::Notify,
            },
            Case {
                checks: Box::leak(Box::new([one_or_two])),
                verdict: Verdict::Allow,
            },
        ];
        rules.insert(0, (0, Rule::Always(Verdict::Allow)));
        rules.insert(0, (301, Rule::Cases(Box::leak(cases.into()), DENIED)));
        program(&rules, 400).unwrap()
    }

    #[track_caller]
    fn check(number: u32, arguments: [u32; 2], expected: Verdict) {
        let answer = answer(&known(), ARCHITECTURE, number, arguments);
        assert_eq!(answer, verdict(expected).k, "{number}({arguments:?})");
    }

    #[test]
    fn each_number_meets_its_own_rule() {
        for number in 0..300 {
            let is_denied = number % 5 == 0 && number < 200;
            check(
                number,
                [0, 0],
                if is_denied { DENIED } else { Verdict::Allow },
            );
        }
    }

    #[test]
    fn the_first_case_that_fits_decides() {
        check(301, [7, 1], Verdict::Notify);
        check(301, [7, 2], Verdict::Notify);
        check(301, [8, 1], Verdict::Allow);
        check(301, [8, 0x102], Verdict::Allow);
        check(301, [7, 3], DENIED);
        check(301, [0, 0], DENIED);
    }

    #[test]
    fn what_is_not_known_does_not_exist() {
        check(399, [0, 0], Verdict::Allow);
        check(400, [0, 0], Verdict::Fail(libc::ENOSYS));
        check(0x4000_0001, [0, 0], Verdict::Fail(libc::ENOSYS));
        let elsewhere = answer(&known(), 0x4000_0003, 1, [0, 0]);
        assert_eq!(elsewhere, libc::SECCOMP_RET_KILL_PROCESS);
    }
}
