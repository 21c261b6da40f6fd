//! Debug information: functions, lines, unwind tables. All addresses are absolute.

use super::Symbol;
use cranelift_codegen::gimli::write::{
    Address, AttributeValue, CommonInformationEntry, DwarfUnit, EhFrame, EndianVec, FrameTable,
    LineProgram, LineString, Range, RangeList, Result, Sections, Writer as _,
};
use cranelift_codegen::gimli::{self, Encoding, Format, LineEncoding, NativeEndian, SectionId};

const ENCODING: Encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };

/// The sections of an object for these functions of a source file, by name.
pub(super) fn sections(
    symbols: &[Symbol],
    file: &str,
    cie: Option<&CommonInformationEntry>,
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let mut unit = DwarfUnit::new(ENCODING);
    let folder = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let folder = folder.to_string_lossy().into_owned().into_bytes();
    let file = if file.is_empty() { "unnamed" } else { file }.replace('\0', "?").into_bytes();
    let mut program = LineProgram::new(
        ENCODING,
        LineEncoding::default(),
        LineString::String(folder.clone()),
        None,
        LineString::String(file.clone()),
        None,
    );
    let directory = program.default_directory();
    let source = program.add_file(LineString::String(file.clone()), directory, None);
    let mut ranges = Vec::new();
    for symbol in symbols {
        let start = Address::Constant(symbol.start as u64);
        let length = symbol.len as u64;
        ranges.push(Range::StartLength { begin: start, length });
        if symbol.at.line == 0 {
            continue;
        }
        program.begin_sequence(Some(start));
        let first = (0, symbol.at);
        for (offset, at) in std::iter::once(&first).chain(&symbol.rows) {
            let row = program.row();
            row.address_offset = u64::from(*offset);
            row.file = source;
            (row.line, row.column) = (at.line.into(), at.column.into());
            program.generate_row();
        }
        program.end_sequence(length);
    }
    unit.unit.line_program = program;
    let ranges = unit.unit.ranges.add(RangeList(ranges));
    let root = unit.unit.root();
    let entry = unit.unit.get_mut(root);
    entry.set(gimli::DW_AT_name, AttributeValue::String(file));
    entry.set(gimli::DW_AT_comp_dir, AttributeValue::String(folder));
    entry.set(gimli::DW_AT_producer, AttributeValue::String(b"parcae-jit".to_vec()));
    // Debuggers know no name for this language; this one makes them print names as they are.
    entry.set(gimli::DW_AT_language, AttributeValue::Language(gimli::DW_LANG_C99));
    entry.set(gimli::DW_AT_stmt_list, AttributeValue::LineProgramRef);
    entry.set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(0)));
    entry.set(gimli::DW_AT_ranges, AttributeValue::RangeListRef(ranges));
    for symbol in symbols {
        let id = unit.unit.add(root, gimli::DW_TAG_subprogram);
        let entry = unit.unit.get_mut(id);
        let start = Address::Constant(symbol.start as u64);
        let name = symbol.name.replace('\0', "?").into_bytes();
        entry.set(gimli::DW_AT_name, AttributeValue::String(name));
        entry.set(gimli::DW_AT_low_pc, AttributeValue::Address(start));
        entry.set(gimli::DW_AT_high_pc, AttributeValue::Udata(symbol.len as u64));
        entry.set(gimli::DW_AT_prototyped, AttributeValue::Flag(true));
        if symbol.at.line > 0 {
            entry.set(gimli::DW_AT_decl_file, AttributeValue::FileIndex(Some(source)));
            entry.set(gimli::DW_AT_decl_line, AttributeValue::Udata(symbol.at.line.into()));
        }
    }
    let mut written = Sections::new(EndianVec::new(NativeEndian));
    unit.write(&mut written)?;
    let mut table = FrameTable::default();
    if let Some(cie) = cie {
        add_frames(&mut table, cie, symbols);
        table.write_debug_frame(&mut written.debug_frame)?;
    }
    let mut named = Vec::new();
    written.for_each(|id: SectionId, bytes| {
        if !bytes.slice().is_empty() {
            named.push((id.name(), bytes.slice().to_vec()));
        }
        Ok::<(), gimli::write::Error>(())
    })?;
    Ok(named)
}

fn add_frames(table: &mut FrameTable, cie: &CommonInformationEntry, symbols: &[Symbol]) {
    let cie = table.add_cie(cie.clone());
    for symbol in symbols {
        if let Some(unwind) = &symbol.unwind {
            table.add_fde(cie, unwind.to_fde(Address::Constant(symbol.start as u64)));
        }
    }
}

/// Unwind tables as they are in the section `.eh_frame` of a program, with a length of 0 at their
/// end.
pub(super) fn unwind_tables(symbols: &[Symbol], cie: &CommonInformationEntry) -> Result<Vec<u8>> {
    let mut table = FrameTable::default();
    add_frames(&mut table, cie, symbols);
    let mut section = EhFrame(EndianVec::new(NativeEndian));
    table.write_eh_frame(&mut section)?;
    section.0.write(&[0; 4])?;
    Ok(section.0.into_vec())
}
