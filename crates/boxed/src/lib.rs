//! `#[boxed]` for async functions that other crates await.
//!
//! The compiler translates the body of an `async fn` in each crate that awaits it, together with
//! all that this body awaits. Without this attribute, the crate of the S3 API would translate the
//! model, the cluster and the storage once more, and the console all of them again. The body of a
//! boxed future is translated where it is written.

use proc_macro::TokenStream;
use quote::quote;
use syn::visit_mut::{VisitMut, visit_signature_mut, visit_type_reference_mut};
use syn::{
    Block, GenericParam, ImplItemFn, Lifetime, Receiver, ReturnType, Signature, TypeReference,
    parse_quote,
};

/// Makes an `async fn` return a future in a box, which is [`Send`].
///
/// All lifetimes that its signature does not name become one, that of the future. Lifetimes and
/// types that it names outlive the future. A type that has a lifetime must show it: `Options<'_>`.
#[proc_macro_attribute]
pub fn boxed(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = syn::parse_macro_input!(item as ImplItemFn);
    if function.sig.asyncness.take().is_none() {
        let error = syn::Error::new_spanned(function.sig.fn_token, "only an async fn is boxed");
        return error.into_compile_error().into();
    }
    box_signature(&mut function.sig);
    function.block = box_block(&function.block);
    quote!(#function).into()
}

/// Names the lifetimes and makes the output a boxed future.
fn box_signature(sig: &mut Signature) {
    visit_signature_mut(&mut Elided, sig);
    for generic in &mut sig.generics.params {
        match generic {
            GenericParam::Lifetime(named) => named.bounds.push(parse_quote!('boxed)),
            GenericParam::Type(named) => named.bounds.push(parse_quote!('boxed)),
            GenericParam::Const(_) => {}
        }
    }
    sig.generics.params.insert(0, parse_quote!('boxed));
    let output = match &sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, output) => quote!(#output),
    };
    sig.output = parse_quote! {
        -> ::std::pin::Pin<::std::boxed::Box<
            dyn ::std::future::Future<Output = #output> + ::std::marker::Send + 'boxed,
        >>
    };
}

fn box_block(block: &Block) -> Block {
    parse_quote!({ ::std::boxed::Box::pin(async move #block) })
}

/// Gives each lifetime that is not named the name `'boxed`.
struct Elided;

impl VisitMut for Elided {
    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        if let Some((_, lifetime @ None)) = &mut receiver.reference {
            *lifetime = Some(parse_quote!('boxed));
        }
        self.visit_type_mut(&mut receiver.ty);
    }

    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        reference
            .lifetime
            .get_or_insert_with(|| parse_quote!('boxed));
        visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = parse_quote!('boxed);
        }
    }
}
