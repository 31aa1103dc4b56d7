//! Being written by "lead" right now (04:59): form parser and policy of PostObject. Do not write it again; the handler is yours.
