//! An ELF object in memory: the sections of the code, which have addresses and no contents, and
//! those of the debug information.

use super::Symbol;

const HEADER: usize = 64;
const SECTION_HEADER: usize = 64;

// Names of the ELF specification.
const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOBITS: u32 = 8;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const ET_EXEC: u16 = 2;
const EV_CURRENT: u32 = 1;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;
/// Section numbers from here on mean something else.
const SHN_LORESERVE: usize = 0xff00;
/// `STT_FUNC`, local.
const FUNCTION: u8 = 2;

/// Functions this close together share a section. Less than a page, so no other mapping is between.
const GAP: usize = 2048;

struct Section {
    name: String,
    kind: u32,
    flags: u64,
    address: usize,
    /// Bytes of a section without contents.
    size: usize,
    contents: Vec<u8>,
    /// Number of the string table, and of the first global symbol.
    link: (u32, u32),
    entry: u64,
}

impl Section {
    fn new(name: impl Into<String>, kind: u32, contents: Vec<u8>) -> Section {
        let (name, size, link) = (name.into(), contents.len(), (0, 0));
        Section { name, kind, flags: 0, address: 0, size, contents, link, entry: 0 }
    }
}

/// The object; none if this machine or the number of sections is beyond what it can describe.
pub(super) fn object(symbols: &[Symbol], debug: Vec<(&str, Vec<u8>)>) -> Option<Vec<u8>> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => EM_X86_64,
        "aarch64" => EM_AARCH64,
        _ => return None,
    };
    let mut ordered: Vec<&Symbol> = symbols.iter().filter(|symbol| symbol.len > 0).collect();
    ordered.sort_by_key(|symbol| symbol.start);
    // Number 0 is no section.
    let mut sections = vec![Section::new("", 0, Vec::new())];
    let mut names = vec![0];
    // The first symbol is none.
    let mut table = vec![0; 24];
    for symbol in ordered {
        let last = sections.last().filter(|last| last.kind == SHT_NOBITS);
        let near = last.is_some_and(|last| symbol.start <= last.address + last.size + GAP);
        if !near {
            let number = sections.len();
            let name = if number == 1 { ".text".to_owned() } else { format!(".text.{number}") };
            let mut text = Section::new(name, SHT_NOBITS, Vec::new());
            text.flags = SHF_ALLOC | SHF_EXECINSTR;
            text.address = symbol.start;
            sections.push(text);
        }
        let number = sections.len() - 1;
        let text = &mut sections[number];
        text.size = symbol.start + symbol.len - text.address;
        table.extend(string(&mut names, &symbol.name).to_ne_bytes());
        table.extend([FUNCTION, 0]);
        table.extend(u16::try_from(number).ok()?.to_ne_bytes());
        table.extend((symbol.start as u64).to_ne_bytes());
        table.extend((symbol.len as u64).to_ne_bytes());
    }
    let globals = (table.len() / 24) as u32;
    let mut symtab = Section::new(".symtab", SHT_SYMTAB, table);
    symtab.link = (sections.len() as u32 + 1, globals);
    symtab.entry = 24;
    sections.extend([symtab, Section::new(".strtab", SHT_STRTAB, names)]);
    for (name, contents) in debug {
        sections.push(Section::new(name, SHT_PROGBITS, contents));
    }
    (sections.len() + 1 < SHN_LORESERVE).then(|| write(machine, sections))
}

/// Adds a text to a table of them: its offset.
fn string(table: &mut Vec<u8>, text: &str) -> u32 {
    let at = table.len() as u32;
    table.extend(text.bytes().filter(|byte| *byte != 0));
    table.push(0);
    at
}

fn write(machine: u16, mut sections: Vec<Section>) -> Vec<u8> {
    let mut names = vec![0];
    let mut named: Vec<u32> = sections.iter().map(|it| string(&mut names, &it.name)).collect();
    named.push(string(&mut names, ".shstrtab"));
    named[0] = 0;
    sections.push(Section::new(".shstrtab", SHT_STRTAB, names));
    let mut bytes = Vec::new();
    let little = cfg!(target_endian = "little");
    bytes.extend([0x7f, b'E', b'L', b'F', 2, if little { 1 } else { 2 }, 1, 0]);
    bytes.extend([0; 8]);
    bytes.extend(ET_EXEC.to_ne_bytes());
    bytes.extend(machine.to_ne_bytes());
    bytes.extend(EV_CURRENT.to_ne_bytes());
    bytes.extend([0; 16]); // entry, program headers
    let contents: usize = sections.iter().map(|it| it.contents.len().next_multiple_of(8)).sum();
    bytes.extend(((HEADER + contents) as u64).to_ne_bytes()); // section headers
    bytes.extend([0; 4]); // flags
    for half in [HEADER, 0, 0, SECTION_HEADER, sections.len(), sections.len() - 1] {
        bytes.extend((half as u16).to_ne_bytes());
    }
    debug_assert_eq!(bytes.len(), HEADER);
    let mut offsets = Vec::new();
    for section in &sections {
        offsets.push(bytes.len() as u64);
        bytes.extend(&section.contents);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    for ((section, name), offset) in sections.iter().zip(named).zip(offsets) {
        if section.kind == 0 {
            bytes.extend([0; SECTION_HEADER]);
            continue;
        }
        bytes.extend(name.to_ne_bytes());
        bytes.extend(section.kind.to_ne_bytes());
        for word in [section.flags, section.address as u64, offset, section.size as u64] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(section.link.0.to_ne_bytes());
        bytes.extend(section.link.1.to_ne_bytes());
        for word in [8_u64, section.entry] {
            bytes.extend(word.to_ne_bytes());
        }
    }
    bytes
}
