package model

// Instance is an instance (config.md 2.5). A forthcoming instance requires only uuid and serial number.
type Instance struct {
	Forthcoming      bool
	Name             Opt[string]
	PrimaryNode      Opt[string]
	OS               Opt[string]
	Hypervisor       Opt[string]
	HVParams         Params
	BeParams         BeParams
	OSParams         Dict[string]
	OSParamsPrivate  Dict[string]
	AdminState       Opt[string]
	AdminStateSource Opt[string]
	NICs             []NIC
	Disks            []string // uuids
	DisksActive      Opt[bool]
	NetworkPort      Opt[int64]
	Stamp
	Tags []string
}

// NIC is a network interface of an instance.
type NIC struct {
	MAC       string
	IP        Opt[string] // any text
	NicParams NicParams
	Network   Opt[string] // uuid
	Name      Opt[string]
	UUID      string
}

var nicTable = newTable([]field[NIC]{
	required("mac", text, func(n *NIC) *string { return &n.MAC }),
	optional("ip", text, func(n *NIC) *Opt[string] { return &n.IP }),
	required("nicparams", nicParams.codec(true), func(n *NIC) *NicParams { return &n.NicParams }),
	optional("network", text, func(n *NIC) *Opt[string] { return &n.Network }),
	optional("name", text, func(n *NIC) *Opt[string] { return &n.Name }),
	required("uuid", text, func(n *NIC) *string { return &n.UUID }),
})

var (
	adminState       = enum("AdminState", "offline", "down", "up")
	adminStateSource = enum("AdminStateSource", "admin", "user")
)

var instanceTable = forthcomingTable(func(i *Instance) *bool { return &i.Forthcoming }, []field[Instance]{
	strict("name", text, func(i *Instance) *Opt[string] { return &i.Name }),
	strict("primary_node", text, func(i *Instance) *Opt[string] { return &i.PrimaryNode }),
	strict("os", text, func(i *Instance) *Opt[string] { return &i.OS }),
	strict("hypervisor", hypervisor, func(i *Instance) *Opt[string] { return &i.Hypervisor }),
	withDefault("hvparams", params, nil, func(i *Instance) *Params { return &i.HVParams }),
	withDefault("beparams", beParams.codec(true), BeParams{}, func(i *Instance) *BeParams { return &i.BeParams }),
	withDefault("osparams", dict(text), nil, func(i *Instance) *Dict[string] { return &i.OSParams }),
	withDefault("osparams_private", dict(text), nil, func(i *Instance) *Dict[string] { return &i.OSParamsPrivate }),
	strict("admin_state", adminState, func(i *Instance) *Opt[string] { return &i.AdminState }),
	strict("admin_state_source", adminStateSource, func(i *Instance) *Opt[string] { return &i.AdminStateSource }),
	withDefault("nics", list(nicTable.codec(false)), nil, func(i *Instance) *[]NIC { return &i.NICs }),
	withDefault("disks", list(text), nil, func(i *Instance) *[]string { return &i.Disks }),
	strict("disks_active", boolean, func(i *Instance) *Opt[bool] { return &i.DisksActive }),
	optional("network_port", integer, func(i *Instance) *Opt[int64] { return &i.NetworkPort }),
}, stamps(func(i *Instance) *Stamp { return &i.Stamp }), tags(func(i *Instance) *[]string { return &i.Tags }))

func forthcomingTable[T any](at func(*T) *bool, parts ...[]field[T]) *table[T] {
	t := newTable(parts...)
	t.forthcoming = at
	return t
}
