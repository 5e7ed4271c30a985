/** Common English words, each one token to most tokenisers, of which the loads' texts are made. */
export const words = `
about above across action after again against age air all almost alone along already also always among amount animal
another answer any appear apple area arm army around arrive art ask attack autumn away back bad bag ball bank base basic
bath bear beat beauty because become bed before begin behind believe bell below best better between big bird black blood
blow blue board boat body bone book border both bottle bottom box boy branch brave bread break bridge bright bring brother
brown build burn bus business busy but buy cake call camera camp can capital car card care carry case castle cat catch
cause cell center century certain chair chance change check child choose church circle city class clean clear climb clock
close cloud coast coat coffee cold collect color come common company compare complete condition connect consider contain
control cook cool copy corn corner correct cost cotton count country course cover cow create cross crowd cry cup current
cut dance danger dark data daughter day dead deal death decide deep degree depend describe desert desk develop die differ
dinner direct discover distance divide doctor dog door double down draw dream dress drink drive drop dry during dust each
ear early earth east easy eat edge egg eight either electric eleven empty end enemy energy engine enough enter equal even
evening event ever every exact example except expect experience explain eye face fact fair fall family famous far farm
fast father fear feed feel few field fight figure fill final find fine finger finish fire first fish fit five flat floor
flow flower fly follow food foot force foreign forest forget form forward four free fresh friend from front fruit full
game garden gas general gentle get gift girl give glass gold good govern grass great green ground group grow guess guide
hair half hall hand happen happy hard hat head hear heart heat heavy help here high hill history hold hole home hope horse
hospital hot hotel hour house how huge human hundred hunt hurry ice idea include industry iron island job join jump just
keep key kind king kitchen knife know lady lake land language large last late laugh law lead leaf learn least leave left
leg letter level library lie life lift light like line list listen little live local long look lose loud love low luck
lunch machine main make man many map mark market matter meal mean measure meat meet member metal method middle milk mind
minute miss model modern moment money month moon more morning most mother motor mountain mouth move much music must name
narrow nation nature near neck need never new news next nice night nine noise none north nose note nothing notice now
number object ocean offer office often oil old once only open order other out over own page paint pair paper parent park
part party pass past path pattern pay peace pen people perhaps period person phone picture piece place plain plan plant
`
  .trim()
  .split(/\s+/);
