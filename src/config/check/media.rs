//! Checks the keys about media that vendors make for an agent: its own vendor, or another one that
//! the config names.

use crate::config::MediaModels;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
use crate::config::diagnostic::quote;
use crate::config::keys::shape::{Flag, Text};
use crate::config::keys::{TypedKey, backend, media, root};
use crate::config::vendors::{Vendor, find_vendor};
use crate::text::list_names;

/// The settings of `orchestrator` about media, which apply to all agents.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TeamMedia {
    is_enabled: bool,
    vendors: MediaVendors,
}

/// The vendors that make media, besides the agents' own.
#[derive(Clone, Copy, Debug, Default)]
struct MediaVendors {
    image: Option<&'static Vendor>,
    audio: Option<&'static Vendor>,
}

impl ConfigChecker<'_> {
    /// Returns the settings of `orchestrator` about media.
    pub(super) fn team_media(&mut self, root: &MappingView<'_>) -> TeamMedia {
        let view = root.section_or_empty(&root::ORCHESTRATOR);
        TeamMedia {
            is_enabled: view.is_set(&media::MULTIMODAL),
            vendors: self.media_vendors(&view),
        }
    }

    /// Returns the models that make media for the agent of this backend.
    pub(super) fn media(&mut self, view: &MappingView<'_>, vendor: &Vendor) -> MediaModels {
        let own_media = self.own_media(view, vendor);
        let team = self.media;
        if !view.flag(&media::MULTIMODAL).unwrap_or(team.is_enabled) {
            return own_media;
        }
        let image = named_model(
            view,
            &backend::IMAGE_GENERATION_MODEL,
            backend::IMAGE_MODEL_DEFAULT,
        );
        let audio = named_model(
            view,
            &backend::AUDIO_GENERATION_MODEL,
            backend::AUDIO_MODEL_DEFAULT,
        );
        if vendor.makes_media() {
            return MediaModels {
                vendor: None,
                image: Some(image),
                audio: Some(audio),
            };
        }
        let vendors = self.media_vendors(view);
        let image_vendor = vendors.image.or(team.vendors.image);
        let audio_vendor = vendors.audio.or(team.vendors.audio);
        MediaModels {
            vendor: image_vendor.or(audio_vendor),
            image: image_vendor.map(|_| image),
            audio: audio_vendor.map(|_| audio),
        }
    }

    /// Returns the models of the agent's own vendor that make media. Warns about a vendor that has
    /// none.
    fn own_media(&mut self, view: &MappingView<'_>, vendor: &Vendor) -> MediaModels {
        let mut model = |flag_key: &TypedKey<Flag>, model_key: &TypedKey<Text>, default: &str| {
            if !view.is_set(flag_key) {
                return None;
            }
            if !vendor.makes_media() {
                let message = format!(
                    "`{}` has no effect for `{}`: only models of `openai` make media here",
                    flag_key.name(),
                    vendor.name
                );
                self.add_warning(view.at(flag_key), message);
                return None;
            }
            Some(named_model(view, model_key, default))
        };
        MediaModels {
            vendor: None,
            image: model(
                &backend::ENABLE_IMAGE_GENERATION,
                &backend::IMAGE_GENERATION_MODEL,
                backend::IMAGE_MODEL_DEFAULT,
            ),
            audio: model(
                &backend::ENABLE_AUDIO_GENERATION,
                &backend::AUDIO_GENERATION_MODEL,
                backend::AUDIO_MODEL_DEFAULT,
            ),
        }
    }

    fn media_vendors(&mut self, view: &MappingView<'_>) -> MediaVendors {
        MediaVendors {
            image: self.media_vendor(view, &media::IMAGE_VENDOR),
            audio: self.media_vendor(view, &media::AUDIO_VENDOR),
        }
    }

    /// Returns the vendor that a key names. Warns about one that makes no media, and about one
    /// whose API key is not set, so that agents cannot have media made.
    fn media_vendor(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<Text>,
    ) -> Option<&'static Vendor> {
        let name = view.text(key)?.value.trim();
        let vendor = find_vendor(name).filter(|vendor| vendor.makes_media());
        let (reason, hint) = match vendor {
            None => (
                format!("{} makes no media here", quote(name)),
                "write `openai`".to_owned(),
            ),
            Some(vendor) => {
                let mut variables = vendor.key_variables.iter();
                let is_set = |name: &&str| {
                    let value = self.context.env.get(name);
                    value.is_some_and(|value| !value.trim().is_empty())
                };
                if variables.any(is_set) {
                    return Some(vendor);
                }
                let names = list_names(vendor.key_variables, "or");
                (
                    format!("{names} is not set"),
                    format!("export {names}, or set it in `~/.massgen/.env`"),
                )
            }
        };
        let message = format!("`{}` has no effect: {reason}", key.name());
        self.warn(view.at(key), message, hint);
        None
    }
}

/// Returns the model that a key names, or the default.
fn named_model(view: &MappingView<'_>, key: &TypedKey<Text>, default: &str) -> String {
    let name = view.word(key).map(str::trim);
    name.filter(|name| !name.is_empty())
        .unwrap_or(default)
        .to_owned()
}
