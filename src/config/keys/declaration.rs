//! The macros that declare the keys of the table: `section!` those of a mapping, in the order of the
//! reference, and `keys!` those that several mappings list. The comment above a key is its
//! description in the reference.

/// Declares keys as constants.
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])+
        const $key:ident = [$($name:literal),+] $shape:ident($($bound:expr),*)
            $(.$method:ident($($argument:expr),*))*;
    )+) => {$(
        pub(crate) const $key: $crate::config::keys::TypedKey<
            value_of!($shape),
        > = $crate::config::keys::TypedKey::new(
            &[$($name),+],
            $crate::config::keys::shape::$shape($($bound),*),
            concat!($($doc),+).trim_ascii(),
        )
        $(.$method($($argument),*))*;
    )+};
}

/// Declares a section and its keys. `row` lists a key that is declared elsewhere; `passed_on`,
/// `unsupported` and `refused` are keys that massgen does not act on.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        pub static $section:ident = $path:literal $(, $unknown_keys:ident)?;
        $(
            $(
                $(#[doc = $doc:literal])+
                const $key:ident = [$($name:literal),+] $shape:ident($($bound:expr),*)
                    $(.$method:ident($($argument:expr),*))*
            )?
            $(row $($row:ident)::+ $(($($row_value:expr),*))?
                $(.$row_method:ident($($row_argument:expr),*))*)?
            $(passed_on [$($sent_name:literal),+] $sent_shape:ident $(($($sent_bound:expr),*))?
                $(.$sent_method:ident($($sent_argument:expr),*))*, $sent_doc:literal)?
            $(unsupported [$($foreign_name:literal),+] $effect:ident $(($words:expr))?
                $(.$foreign_method:ident($($foreign_argument:expr),*))*, $alternative:literal)?
            $(refused [$($refused_name:literal),+], $replacement:literal)?
            ;
        )*
    ) => {
        $($(
            keys! {
                $(#[doc = $doc])+
                const $key = [$($name),+] $shape($($bound),*) $(.$method($($argument),*))*;
            }
        )?)*

        $(#[doc = $section_doc])+
        pub static $section: $crate::config::keys::KeySection =
            $crate::config::keys::KeySection::new(
                $path,
                concat!($($section_doc),+).trim_ascii(),
                &[$(
                    $($key.row(),)?
                    $($($row)::+ $(($($row_value),*))? $(.$row_method($($row_argument),*))*,)?
                    $($crate::config::keys::ConfigKey::passed_on(
                        &[$($sent_name),+],
                        $crate::config::keys::ValueShape::$sent_shape $(($($sent_bound),*))?,
                        $sent_doc,
                    )
                    $(.$sent_method($($sent_argument),*))*,)?
                    $($crate::config::keys::ConfigKey::unsupported(
                        &[$($foreign_name),+],
                        $crate::config::keys::IgnoredEffect::$effect $(($words))?,
                        $alternative,
                    )
                    $(.$foreign_method($($foreign_argument),*))*,)?
                    $($crate::config::keys::ConfigKey::refused(
                        &[$($refused_name),+],
                        $replacement,
                    ),)?
                )*],
            )
            $(.with_unknown_keys($crate::config::keys::UnknownKeys::$unknown_keys))?;
    };
}

/// The type of the values of a shape.
macro_rules! value_of {
    (flag) => {
        $crate::config::keys::shape::Flag
    };
    (integer) => {
        $crate::config::keys::shape::Integer
    };
    (decimal) => {
        $crate::config::keys::shape::Decimal
    };
    (size) => {
        $crate::config::keys::shape::ByteSize
    };
    (one_of_or_list) => {
        $crate::config::keys::shape::TextOrList
    };
    (names_or_pairs) => {
        $crate::config::keys::shape::NamesOrPairs
    };
    (texts) => {
        $crate::config::keys::shape::TextList
    };
    (texts_of) => {
        $crate::config::keys::shape::TextList
    };
    (nodes) => {
        $crate::config::keys::shape::NodeList
    };
    (section) => {
        $crate::config::keys::shape::Section
    };
    (named_sections) => {
        $crate::config::keys::shape::NamedSections
    };
    (tree) => {
        $crate::config::keys::shape::Tree
    };
    (verbatim_tree) => {
        $crate::config::keys::shape::Tree
    };
    ($text:ident) => {
        $crate::config::keys::shape::Text
    };
}
