//! What does a source file consist of? One reading of the syntax tree collects the facts every rule asks for:
//! paths (imports, expressions, macro arguments), functions, statics, fields, attributes.
//!
//! Test code (`#[cfg(test)]` items) is marked, since most rules are about what ships.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// One file of the house.
pub(crate) struct Source {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    /// As written.
    pub(crate) text: String,
    /// What was read in it.
    pub(crate) facts: Facts,
}

/// A path somewhere in the code, made absolute: `crate::pool::Origin` is `["crate", "pool", "Origin"]`.
pub(crate) struct Reference {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
    /// Part of a `pub use`.
    pub(crate) exported: bool,
}

/// A function with a body.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Lines of its body that are neither blank nor comment.
    pub(crate) lines: usize,
    /// A method of `impl ProxyHttp for …`.
    pub(crate) hook: bool,
    /// Its length is allowed, with a reason on the line.
    pub(crate) excused: bool,
}

/// Something found by its name at a line.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) in_test: bool,
}

/// All that was read in one file.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) references: Vec<Reference>,
    pub(crate) functions: Vec<Function>,
    /// Statics that hold state, `thread_local!` and the like.
    pub(crate) stateful: Vec<Named>,
    /// Struct fields whose type mentions an `ArcSwap`.
    pub(crate) swaps: Vec<Named>,
    /// Macros called.
    pub(crate) macros: Vec<Named>,
    /// `#[ignore]` without a reason, `#[should_panic]`.
    pub(crate) attributes: Vec<Named>,
    /// Calls that are given a status as a number.
    pub(crate) statuses: Vec<Named>,
    /// Lines of `#[cfg(test)]` items.
    pub(crate) test_lines: usize,
}

impl Source {
    /// Reads one file; the error names it.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let tree = syn::parse_file(text).map_err(|error| format!("{path}: {error}"))?;
        let mut reader = Reader {
            lines: text.lines().collect(),
            module: module_of(path),
            in_test: is_test_file(path),
            exported: false,
            in_hooks: false,
            facts: Facts::default(),
        };
        reader.visit_file(&tree);
        Ok(Self { path: path.to_owned(), text: text.to_owned(), facts: reader.facts })
    }

    /// The first folder below `src`; `None` for `lib.rs`, `main.rs` and everything outside `src`.
    pub(crate) fn room(&self) -> Option<&str> {
        let (room, _) = self.path.strip_prefix("src/")?.split_once('/')?;
        Some(room)
    }
}

/// `src/pool/origin.rs` is the module `pool::origin`, `src/pool/mod.rs` is `pool`.
fn module_of(path: &str) -> Vec<String> {
    let inside = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs");
    let mut module: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        module.pop();
    }
    module
}

fn is_test_file(path: &str) -> bool {
    let names = ["/tests.rs", "/properties.rs", "/reference.rs", "/generated.rs"];
    !path.starts_with("src/") || names.iter().any(|name| path.ends_with(name))
}

struct Reader<'a> {
    lines: Vec<&'a str>,
    module: Vec<String>,
    in_test: bool,
    exported: bool,
    in_hooks: bool,
    facts: Facts,
}

impl Reader<'_> {
    fn refer(&mut self, segments: &[String], span: Span) {
        let Some(segments) = absolute(&self.module, segments) else { return };
        let (line, in_test, exported) = (line(span), self.in_test, self.exported);
        self.facts.references.push(Reference { segments, line, in_test, exported });
    }

    fn named(&self, name: impl Into<String>, span: Span) -> Named {
        Named { name: name.into(), line: line(span), in_test: self.in_test }
    }

    fn function(&mut self, name: &syn::Ident, block: &syn::Block, attributes: &[syn::Attribute]) {
        let (first, last) = (line(block.brace_token.span.open()), line(block.brace_token.span.close()));
        let inside = self.lines.get(first..last.saturating_sub(1)).unwrap_or_default();
        let lines = inside.iter().map(|l| l.trim()).filter(|l| !l.is_empty() && !l.starts_with("//")).count();
        self.facts.functions.push(Function {
            name: name.to_string(),
            line: line(name.span()),
            lines,
            hook: self.in_hooks,
            excused: attributes.iter().any(excuses_length),
        });
    }

    /// Macro arguments are plain tokens: paths are put together from `a :: b :: c`.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut start = Span::call_site();
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.flush(&mut path, start);
                        start = ident.span();
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.flush(&mut path, start);
                    colons = 0;
                    if group.delimiter() != Delimiter::None || !group.stream().is_empty() {
                        self.tokens(group.stream());
                    }
                }
                _ => {
                    self.flush(&mut path, start);
                    colons = 0;
                }
            }
        }
        self.flush(&mut path, start);
    }

    fn flush(&mut self, path: &mut Vec<String>, start: Span) {
        if path.len() > 1 {
            self.refer(path, start);
        }
        path.clear();
    }

    fn use_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| prefix.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.use_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.refer(&with(&name.ident), name.ident.span()),
            syn::UseTree::Rename(name) => self.refer(&with(&name.ident), name.ident.span()),
            syn::UseTree::Glob(glob) => {
                let all: Vec<String> = prefix.iter().cloned().chain(["*".to_owned()]).collect();
                self.refer(&all, glob.span());
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.use_tree(prefix, item)),
        }
    }

    fn attributes(&mut self, attributes: &[syn::Attribute]) {
        for attribute in attributes {
            let bare_ignore = attribute.path().is_ident("ignore") && matches!(attribute.meta, syn::Meta::Path(_));
            if bare_ignore || attribute.path().is_ident("should_panic") {
                let name = if bare_ignore { "#[ignore] without a reason" } else { "#[should_panic]" };
                self.facts.attributes.push(self.named(name, attribute.span()));
            }
        }
    }

    fn status(&mut self, call: &str, arguments: &syn::punctuated::Punctuated<syn::Expr, syn::Token![,]>) {
        const TAKE_A_STATUS: [&str; 6] =
            ["build", "HTTPStatus", "from_u16", "respond_error", "respond_error_with_body", "set_status"];
        let Some(syn::Expr::Lit(literal)) = arguments.first() else { return };
        let syn::Lit::Int(number) = &literal.lit else { return };
        if TAKE_A_STATUS.contains(&call) && number.base10_parse::<u16>().is_ok_and(|n| (100..600).contains(&n)) {
            self.facts.statuses.push(self.named(format!("{call}({number})"), number.span()));
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = attributes_of(item);
        let outer = self.in_test;
        if attributes.iter().any(is_cfg_test) && !outer {
            self.in_test = true;
            let first = attributes.iter().map(|a| line(a.span())).min().unwrap_or_default();
            self.facts.test_lines += item.span().end().line.saturating_sub(first) + 1;
        }
        visit::visit_item(self, item);
        self.in_test = outer;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.exported = matches!(item.vis, syn::Visibility::Public(_) | syn::Visibility::Restricted(_));
        self.use_tree(&[], &item.tree);
        self.exported = false;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.attributes(&item.attrs);
        self.function(&item.sig.ident, &item.block, &item.attrs);
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let named = |(path, _): &(syn::Path, syn::Token![for])| path.segments.last().map(|s| s.ident.to_string());
        self.in_hooks = item.trait_.as_ref().and_then(named).is_some_and(|name| name == "ProxyHttp");
        visit::visit_item_impl(self, item);
        self.in_hooks = false;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.attributes(&item.attrs);
        self.function(&item.sig.ident, &item.block, &item.attrs);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if matches!(item.mutability, syn::StaticMutability::Mut(_)) || names(&item.ty).iter().any(|n| holds_state(n)) {
            self.facts.stateful.push(self.named(format!("static {}", item.ident), item.ident.span()));
        }
        visit::visit_item_static(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if names(&field.ty).iter().any(|name| name.starts_with("ArcSwap")) {
            self.facts.swaps.push(self.named("a field with an ArcSwap", field.span()));
        }
        visit::visit_field(self, field);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let syn::Expr::Path(path) = call.func.as_ref()
            && let Some(last) = path.path.segments.last()
        {
            self.status(&last.ident.to_string(), &call.args);
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.status(&call.method.to_string(), &call.args);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(last) = call.path.segments.last() {
            let name = last.ident.to_string();
            if ["thread_local", "lazy_static"].contains(&name.as_str()) {
                self.facts.stateful.push(self.named(format!("{name}!"), last.ident.span()));
            }
            self.facts.macros.push(self.named(name, last.ident.span()));
        }
        visit::visit_macro(self, call);
        self.tokens(call.tokens.clone());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.refer(&segments, path.span());
        visit::visit_path(self, path);
    }

    /// `pub(crate)` and `pub(in …)` say who may look, not what is looked at.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// `self::`, `super::` and `crate::` made absolute; other paths stay as they are.
fn absolute(module: &[String], segments: &[String]) -> Option<Vec<String>> {
    let first = segments.first()?.as_str();
    if !["self", "super"].contains(&first) || segments.len() == 1 {
        return Some(segments.to_vec());
    }
    let ups = segments.iter().take_while(|s| ["self", "super"].contains(&s.as_str())).count();
    let depth = segments.iter().take(ups).filter(|s| s.as_str() == "super").count();
    let base = module.get(..module.len().checked_sub(depth)?)?;
    let rest = segments.get(ups..)?;
    Some(std::iter::once("crate".to_owned()).chain(base.iter().cloned()).chain(rest.iter().cloned()).collect())
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        _ => &[],
    }
}

fn is_cfg_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let words: Vec<String> = list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect();
    attribute.path().is_ident("cfg") && words.iter().any(|w| w == "test") && !words.iter().any(|w| w == "not")
}

/// `#[allow(clippy::too_many_lines, reason = "…")]`.
fn excuses_length(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    let words = list.tokens.to_string();
    (list.path.is_ident("allow") || list.path.is_ident("expect"))
        && words.contains("too_many_lines")
        && words.contains("reason")
}

/// Every name in a type.
fn names(ty: &syn::Type) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
            self.0.push(segment.ident.to_string());
            visit::visit_path_segment(self, segment);
        }
    }
    let mut found = Names(Vec::new());
    found.visit_type(ty);
    found.0
}

fn holds_state(name: &str) -> bool {
    const CELLS: [&str; 12] = [
        "Mutex",
        "RwLock",
        "Once",
        "OnceLock",
        "LazyLock",
        "OnceCell",
        "Lazy",
        "LazyCell",
        "Cell",
        "RefCell",
        "UnsafeCell",
        "Condvar",
    ];
    CELLS.contains(&name) || name.starts_with("Atomic") || name.starts_with("ArcSwap")
}

fn line(span: Span) -> usize {
    span.start().line
}
