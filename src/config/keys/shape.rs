//! Shapes of values, each with the type of what it is read as. A reader that expects something
//! else of a key does not compile.

use std::marker::PhantomData;

use crate::config::keys::{KeySection, ValueShape};

/// The shape of values that are read as `V`.
#[derive(Debug)]
pub struct TypedShape<V> {
    pub(super) shape: ValueShape,
    value: PhantomData<V>,
}

/// One string.
#[derive(Debug)]
pub enum Text {}
/// A boolean.
#[derive(Debug)]
pub enum Flag {}
/// An integer.
#[derive(Debug)]
pub enum Integer {}
/// A number with its decimals as written.
#[derive(Debug)]
pub enum Decimal {}
/// A number of bytes.
#[derive(Debug)]
pub enum ByteSize {}
/// A list of strings.
#[derive(Debug)]
pub enum TextList {}
/// A list whose items the reader takes apart.
#[derive(Debug)]
pub enum NodeList {}
/// A word, or a list of strings.
#[derive(Debug)]
pub enum TextOrList {}
/// A list of names, or a mapping of names to strings.
#[derive(Debug)]
pub enum NamesOrPairs {}
/// A mapping with the keys of a section.
#[derive(Debug)]
pub enum Section {}
/// Mappings with the keys of a section, each with a name.
#[derive(Debug)]
pub enum NamedSections {}
/// A value that the reader takes apart.
#[derive(Debug)]
pub enum Tree {}

/// What can be a single string.
pub trait SingleText {}
impl SingleText for Text {}
impl SingleText for TextOrList {}

/// What can be a list of strings.
pub trait SeveralTexts {}
impl SeveralTexts for TextList {}
impl SeveralTexts for TextOrList {}
impl SeveralTexts for NamesOrPairs {}

/// What can be a single mapping.
pub trait SingleMapping {}
impl SingleMapping for Section {}
impl SingleMapping for NamesOrPairs {}

impl<V> TypedShape<V> {
    const fn new(shape: ValueShape) -> Self {
        Self {
            shape,
            value: PhantomData,
        }
    }
}

/// Any string.
pub(super) const fn text() -> TypedShape<Text> {
    TypedShape::new(ValueShape::Text)
}

/// A string whose variables are not expanded.
pub(super) const fn verbatim_text() -> TypedShape<Text> {
    TypedShape::new(ValueShape::Verbatim)
}

/// One of these words.
pub(super) const fn one_of(words: &'static [&'static str]) -> TypedShape<Text> {
    TypedShape::new(ValueShape::OneOf(words))
}

/// One of these words, or a list of strings.
pub(super) const fn one_of_or_list(words: &'static [&'static str]) -> TypedShape<TextOrList> {
    TypedShape::new(ValueShape::OneOfOrList(words))
}

/// `true` or `false`.
pub(super) const fn flag() -> TypedShape<Flag> {
    TypedShape::new(ValueShape::Flag)
}

/// An integer within these bounds.
pub(super) const fn integer(min: i64, max: i64) -> TypedShape<Integer> {
    TypedShape::new(ValueShape::Integer(min, max))
}

/// A number within these bounds.
pub(super) const fn decimal(min: f64, max: f64) -> TypedShape<Decimal> {
    TypedShape::new(ValueShape::Number(min, max))
}

/// A number of bytes within these bounds.
pub(super) const fn size(min: u64, max: u64) -> TypedShape<ByteSize> {
    TypedShape::new(ValueShape::Size(min, max))
}

/// A list of names, or a mapping of names to strings.
pub(super) const fn names_or_pairs() -> TypedShape<NamesOrPairs> {
    TypedShape::new(ValueShape::Names)
}

/// A list of strings.
pub(super) const fn texts() -> TypedShape<TextList> {
    texts_of(&ValueShape::Text)
}

/// A list of strings of this shape.
pub(super) const fn texts_of(item: &'static ValueShape) -> TypedShape<TextList> {
    TypedShape::new(ValueShape::List(item))
}

/// A list of values of this shape, which the reader takes apart.
pub(super) const fn nodes(item: &'static ValueShape) -> TypedShape<NodeList> {
    TypedShape::new(ValueShape::List(item))
}

/// A mapping with the keys of a section.
pub(super) const fn section(section: &'static KeySection) -> TypedShape<Section> {
    TypedShape::new(ValueShape::Mapping(section))
}

/// Mappings with the keys of a section: a list, or a mapping of names to them.
pub(super) const fn named_sections(section: &'static KeySection) -> TypedShape<NamedSections> {
    TypedShape::new(ValueShape::Named(section))
}

/// Anything, which the reader takes apart.
pub(super) const fn tree() -> TypedShape<Tree> {
    TypedShape::new(ValueShape::Any)
}

/// Anything, without variables that are expanded.
pub(super) const fn verbatim_tree() -> TypedShape<Tree> {
    TypedShape::new(ValueShape::Verbatim)
}
