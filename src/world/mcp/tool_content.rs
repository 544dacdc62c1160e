//! Conversion of a tool result to content blocks of the Model Context Protocol.

use rmcp::model::ContentBlock;

use crate::tools::image::ModelImage;

/// Converts a text and its images to content blocks.
pub fn content_blocks(text: String, images: &[ModelImage]) -> Vec<ContentBlock> {
    let image_blocks = images.iter().map(|image| {
        let kind = image.kind().to_string();
        ContentBlock::image(image.base64(), kind)
    });
    std::iter::once(ContentBlock::text(text))
        .chain(image_blocks)
        .collect()
}
