package journal

import (
	"lockstep/core/config"
	"lockstep/core/config/model"
)

// DecodeConfig decodes the content of config.data. A file of an earlier lockstep can lack required values: isFilled reports that
// they were added. The first write stores them.
func DecodeConfig(data []byte) (c *model.Config, isFilled bool, err error) {
	c, err = model.Decode(data)
	if err == nil {
		return c, false, nil
	}
	complete, cannot := config.Fill(data)
	if cannot != nil {
		return nil, false, err
	}
	if c, err = model.Decode(complete); err != nil {
		return nil, false, err
	}
	return c, true, nil
}
