//! The tools that a vendor runs itself, and that an agent calls as massgen's where the vendor does
//! not combine them with massgen's tools.

/// A tool that a vendor runs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VendorTool {
    /// A search of the Web.
    WebSearch,
    /// Programs that a model writes and its vendor runs.
    CodeExecution,
}

impl VendorTool {
    /// All of them.
    pub const ALL: [VendorTool; 2] = [VendorTool::WebSearch, VendorTool::CodeExecution];

    /// Returns the config key that enables it.
    pub const fn key(self) -> &'static str {
        match self {
            VendorTool::WebSearch => "enable_web_search",
            VendorTool::CodeExecution => "enable_code_execution",
        }
    }

    /// Returns the name by which an agent calls it.
    pub const fn name(self) -> &'static str {
        match self {
            VendorTool::WebSearch => "web_search",
            VendorTool::CodeExecution => "vendor_code_execution",
        }
    }

    /// Returns the parameter of its call.
    pub const fn parameter(self) -> &'static str {
        match self {
            VendorTool::WebSearch => "query",
            VendorTool::CodeExecution => "task",
        }
    }
}
